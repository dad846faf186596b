/* page.h - what is the same in every page: its looks, and how it zooms. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDUMP_PAGE_H
#define TCDUMP_PAGE_H

/* Kinds have the colours of Okabe and Ito, which all eyes tell apart. */
static const char page_style[] =
    "body{font:14px/1.45 system-ui,sans-serif;color:#222;background:#fff;margin:24px;}\n"
    "h1{font-size:19px;margin:0 0 8px}\n"
    ".legend{list-style:none;padding:0;margin:0 0 10px;display:flex;flex-wrap:wrap;gap:4px 18px}\n"
    ".legend li::before{content:'';display:inline-block;width:13px;height:13px;margin-right:6px;"
    "border-radius:2px;vertical-align:-1px;background:var(--c)}\n"
    ".found{background:#fdf1e7;padding:8px 8px 8px 28px;margin:0 0 12px}\n"
    "canvas{display:block;width:100%;cursor:grab;touch-action:none}\n"
    "#tip{position:fixed;pointer-events:none;background:#222;color:#fff;padding:3px 8px;"
    "border-radius:3px;font-size:12px;display:none;max-width:60ch}\n"
    "button{font:inherit;padding:1px 12px;margin-right:4px}\n";

static const char page_legend[] =
    "<ul class='legend'><li style='--c:#cc79a7'>operation</li>"
    "<li style='--c:#56b4e9'>span of the application</li><li style='--c:#009e73'>fold</li>"
    "<li style='--c:#d55e00'>what held the loop, or failed</li></ul>\n"
    "<p><button id='in'>+</button><button id='out'>&minus;</button><button id='all'>all</button> "
    "scroll to zoom, drag to move; the axis is in milliseconds</p>\n"
    "<canvas id='plot'></canvas><div id='tip'></div>\n";

/* Every draw walks all bars: 200,000 take some tens of milliseconds. */
static const char page_script[] =
    "const plot=document.getElementById('plot'),tip=document.getElementById('tip'),\n"
    "  ink=plot.getContext('2d'),colors=['#cc79a7','#56b4e9','#009e73','#d55e00'],\n"
    "  L=130,T=22,R=14,G=8,tops=[];\n"
    "let H=T;for(const l of lanes){tops.push(H);H+=l[2]*R+G}\n"
    "let W=0,z=1,o=0;\n"
    "const width=()=>W-L,x=t=>L+(t-o)*width()/span*z;\n"
    "function draw(){const d=devicePixelRatio||1;W=plot.clientWidth;plot.width=W*d;\n"
    "  plot.height=H*d;plot.style.height=H+'px';ink.setTransform(d,0,0,d,0,0);\n"
    "  o=Math.max(0,Math.min(o,span-span/z));ink.font='11px system-ui,sans-serif';\n"
    "  ink.clearRect(0,0,W,H);ink.fillStyle='#f5f5f5';\n"
    "  lanes.forEach((l,i)=>ink.fillRect(0,tops[i]-2,W,l[2]*R+2));\n"
    "  ink.save();ink.beginPath();ink.rect(L,0,W-L,H);ink.clip();\n"
    "  for(const b of bars){const a=x(b[2]),w=Math.max(b[3]*width()/span*z,.5);\n"
    "    if(a+w<L||a>W)continue;const y=tops[b[0]]+b[1]*R;\n"
    "    ink.fillStyle=b[5].endsWith('failed')?colors[3]:colors[b[4]];\n"
    "    ink.fillRect(a,y,w,R-2);\n"
    "    if(w>60){const s=Math.max(a,L);ink.save();ink.beginPath();ink.rect(s,y,a+w-s-2,R);\n"
    "      ink.clip();ink.fillStyle='#000';ink.fillText(b[5],s+3,y+R-4);ink.restore()}}\n"
    "  ink.restore();ink.fillStyle='#222';\n"
    "  lanes.forEach((l,i)=>ink.fillText(l[0]+'  '+l[1],4,tops[i]+10));\n"
    "  const per=width()*z/(span/1000);let u=10**Math.floor(Math.log10(90/per));\n"
    "  u*=[1,2,5,10].find(f=>f*u*per>=90)||10;\n"
    "  const n=Math.max(0,-Math.floor(Math.log10(u)+1e-9));\n"
    "  for(let i=Math.ceil(o/1000/u);i*u*1000<=o+span/z;i++){const at=x(i*u*1000);\n"
    "    ink.fillRect(at,14,1,5);ink.fillText((i*u).toFixed(n),at+2,11)}}\n"
    "function zoom(f,at){const t=o+(at-L)*span/width()/z;z=Math.max(1,Math.min(z*f,1e6));\n"
    "  o=t-(at-L)*span/width()/z;draw()}\n"
    "const at=e=>{const r=plot.getBoundingClientRect();return[e.clientX-r.left,e.clientY-r.top]};\n"
    "plot.addEventListener('wheel',e=>{e.preventDefault();\n"
    "  if(Math.abs(e.deltaX)>Math.abs(e.deltaY)){o+=e.deltaX*span/width()/z;draw()}\n"
    "  else zoom(1.0015**-e.deltaY,at(e)[0])},{passive:false});\n"
    "let from=null;plot.addEventListener('pointerdown',e=>{from=e.clientX});\n"
    "addEventListener('pointerup',()=>{from=null});\n"
    "addEventListener('pointermove',e=>{if(from!==null){o-=(e.clientX-from)*span/width()/z;\n"
    "    from=e.clientX;draw();return}\n"
    "  const[px,py]=at(e),hit=bars.filter(b=>{const y=tops[b[0]]+b[1]*R;\n"
    "    return py>=y&&py<y+R-1&&px>=x(b[2])-1&&px<=x(b[2]+b[3])+1}).pop();\n"
    "  tip.style.display=hit&&px>L?'block':'none';if(!hit)return;\n"
    "  tip.textContent=hit[5]+': '+(hit[3]/1000).toFixed(3)+' ms, from '\n"
    "    +(hit[2]/1000).toFixed(3);tip.style.left=e.clientX+12+'px';\n"
    "  tip.style.top=e.clientY+12+'px'});\n"
    "addEventListener('resize',draw);\n"
    "document.getElementById('in').onclick=()=>zoom(2,L+width()/2);\n"
    "document.getElementById('out').onclick=()=>zoom(.5,L+width()/2);\n"
    "document.getElementById('all').onclick=()=>{z=1;o=0;draw()};\n"
    "draw();\n";

#endif

/* page.h - what is the same in every timeline page: its looks, and its zoom. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIGITS_PAGE_H
#define DIGITS_PAGE_H

/* Kinds have the colours of Okabe and Ito, which all eyes tell apart; later layers are darker. */
static const char page_style[] =
    "body{font:14px/1.45 system-ui,sans-serif;color:#222;background:#fff;margin:24px auto;"
    "max-width:1240px;padding:0 16px}\n"
    "h1{font-size:19px;margin:0 0 4px}p{margin:0 0 10px}\n"
    "ul{list-style:none;padding:0;margin:0 0 10px;display:flex;flex-wrap:wrap;gap:4px 18px}\n"
    "li::before{content:'';display:inline-block;width:13px;height:13px;border-radius:2px;"
    "margin-right:6px;vertical-align:-1px;background:var(--c)}\n"
    "button{font:inherit;padding:1px 12px;margin-right:4px}\n"
    "svg{display:block;font:11px system-ui,sans-serif;user-select:none}\n"
    "#plot{cursor:grab;touch-action:none}\n"
    ".forward{fill:#56b4e9}.backward{fill:#e69f00}.update{fill:#009e73}.wait{fill:#c9c9c9}"
    "rect.late{fill:#f3d9d2;fill-opacity:1}\n"
    ".collective{fill:#cc79a7}\n"
    ".l0{fill-opacity:.5}.l1{fill-opacity:.65}.l2{fill-opacity:.8}\n"
    ".band{fill:#f5f5f5}.name{font-weight:600}.small{fill:#777;font-size:10px}\n"
    ".step,.tick{stroke:#bbb;stroke-width:1}.step{stroke-dasharray:2 3}\n"
    "#axis text{fill:#555;text-anchor:middle}#labels{pointer-events:none;font-size:10px}\n"
    "rect.span:hover{stroke:#000}footer{color:#666;font-size:12px;margin-top:12px}\n";

/* Keeps each element's place at zoom 1 and lays all out anew for a zoom and an offset. */
static const char page_script[] =
    "const plot=document.getElementById('plot'),axis=document.getElementById('axis'),\n"
    "  labels=document.getElementById('labels'),ns='http://www.w3.org/2000/svg',\n"
    "  W=+plot.getAttribute('width'),ms=+plot.dataset.ms,\n"
    "  get=(e,n)=>+e.getAttribute(n),\n"
    "  spans=[...plot.querySelectorAll('rect.span')].map(e=>({e,x:get(e,'x'),w:get(e,'width'),\n"
    "    y:get(e,'y')+get(e,'height')/2+3.5,t:e.textContent.split(':')[0]})),\n"
    "  steps=[...plot.querySelectorAll('line.step')].map(e=>({e,x:get(e,'x1')}));\n"
    "let z=1,o=0;\n"
    "function put(parent,tag,attributes,text){const e=document.createElementNS(ns,tag);\n"
    "  for(const k in attributes)e.setAttribute(k,attributes[k]);\n"
    "  if(text)e.textContent=text;parent.append(e)}\n"
    "function draw(){\n"
    "  o=Math.max(0,Math.min(o,W-W/z));labels.replaceChildren();axis.replaceChildren();\n"
    "  for(const s of spans){const x=(s.x-o)*z,w=Math.max(s.w*z,.4);\n"
    "    s.e.setAttribute('x',x);s.e.setAttribute('width',w);\n"
    "    const a=Math.max(x,0),b=Math.min(x+w,W);\n"
    "    if(b-a>s.t.length*5.6+6)put(labels,'text',{x:a+4,y:s.y},s.t)}\n"
    "  for(const s of steps)for(const n of['x1','x2'])s.e.setAttribute(n,(s.x-o)*z);\n"
    "  const per=W*z/ms;let unit=10**Math.floor(Math.log10(90/per));\n"
    "  unit*=[1,2,5,10].find(f=>f*unit*per>=90);\n"
    "  const digits=Math.max(0,-Math.floor(Math.log10(unit)+1e-9));\n"
    "  for(let i=Math.ceil(o/W*ms/unit);i*unit<=(o+W/z)/W*ms;i++){\n"
    "    const x=(i*unit-o/W*ms)*per;put(axis,'line',{class:'tick',x1:x,x2:x,y1:16,y2:21});\n"
    "    put(axis,'text',{x:Math.max(x,4),y:12},(i*unit).toFixed(digits))}}\n"
    "function zoom(f,x){const at=o+x/z;z=Math.max(1,Math.min(z*f,2000));o=at-x/z;draw()}\n"
    "const left=()=>plot.getBoundingClientRect().left;\n"
    "plot.addEventListener('wheel',e=>{e.preventDefault();\n"
    "  if(Math.abs(e.deltaX)>Math.abs(e.deltaY)){o+=e.deltaX/z;draw()}\n"
    "  else zoom(1.0015**-e.deltaY,e.clientX-left())},{passive:false});\n"
    "let from=null;plot.addEventListener('pointerdown',e=>{from=e.clientX});\n"
    "addEventListener('pointerup',()=>{from=null});\n"
    "addEventListener('pointermove',e=>{if(from!==null){o-=(e.clientX-from)/z;from=e.clientX;"
    "draw()}});\n"
    "document.getElementById('in').onclick=()=>zoom(2,W/2);\n"
    "document.getElementById('out').onclick=()=>zoom(.5,W/2);\n"
    "document.getElementById('all').onclick=()=>{z=1;draw()};\n"
    "draw();\n";

#endif

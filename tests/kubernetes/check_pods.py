#!/usr/bin/env python3
# check_pods.py - the job of a manifest, its pods as namespaces of this machine that meet by name.
# SPDX-License-Identifier: Apache-2.0
"""Usage: check_pods.py MANIFEST FOLDER_OF_PROGRAMS

Each pod has a network, a host name, processes and /etc files of its own, as a node's agent sets
them up; its name is known to the cluster's name server from the time on at which it has an
address.  Command, environment and rights are those of the manifest.  The program and its data
take the place of the image.  Needs root, iproute2 and util-linux."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from manifest import Manifest, skip
from name_server import NameServer

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = "examples/digits/digits.csv.gz"
ZONE = "default.svc.cluster.local"
NET, GATE = "10.80.0", "10.80.0.1"
PATIENCE_S = 120
NOBODY = "65534"
CLONE_NEWNET = 0x40000000

# What a pod begins with; the cable is there once it may read a line.
BEGIN = """
set -eu
hostname "$POD"
mount --make-rprivate /
for file in hosts resolv.conf nsswitch.conf; do
    mount --bind "$ETC/$file" "/etc/$file"
done
read -r cable
ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
unset ETC POD ADDRESS
exec "$@"
"""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Cluster:
    """A network with a name server, and a folder that stands for the image."""

    def __init__(self, manifest, programs, folder):
        self.manifest, self.folder = manifest, folder
        self.image = os.path.join(folder, "image")
        program = manifest.container["command"][0]
        os.makedirs(os.path.join(self.image, os.path.dirname(DATA)))
        os.makedirs(os.path.join(self.image, "bin"))
        shutil.copy(os.path.join(programs, program), os.path.join(self.image, "bin"))
        shutil.copy(os.path.join(HERE, os.pardir, os.pardir, DATA), os.path.join(self.image, DATA))
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "address", "add", f"{GATE}/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        self.names = NameServer(GATE)
        self.cables = 0

    def forget_pods(self):
        """The next ones have their names and addresses."""
        self.names.forget()
        run("ip", "neighbour", "flush", "dev", "br0")


class Pod:
    def __init__(self, cluster, index, arguments=()):
        manifest = cluster.manifest
        self.cluster, self.index = cluster, index
        self.name = manifest.pod_name(index)
        self.full_name = f"{self.name}.{manifest.pod['spec']['subdomain']}.{ZONE}"
        self.address = f"{NET}.{10 + index}"
        self.lines, self.is_open, self.has_line = [], True, threading.Condition()
        self.start(manifest, self.write_etc(), arguments)

    def write_etc(self):
        etc = tempfile.mkdtemp(dir=self.cluster.folder)
        files = {
            "hosts": f"127.0.0.1 localhost\n{self.address} {self.full_name} {self.name}\n",
            "resolv.conf": f"nameserver {GATE}\noptions ndots:5\n"
                           f"search {ZONE} svc.cluster.local cluster.local\n",
            "nsswitch.conf": "hosts: files dns\n",
        }
        os.chmod(etc, 0o755)
        for name, text in files.items():
            with open(os.path.join(etc, name), "w", encoding="ascii") as file:
                file.write(text)
        return etc

    def start(self, manifest, etc, arguments):
        image = self.cluster.image
        env = {"PATH": f"{image}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "POD": self.name, "ETC": etc,
               "ADDRESS": self.address, "HOSTNAME": self.name, "LC_ALL": "C",
               **manifest.environment(self.index)}
        self.process = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", BEGIN, "sh",
             "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *rights(manifest),
             *manifest.container["command"], *arguments],
            env=env, cwd=image, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, bufsize=1)
        threading.Thread(target=self.listen, daemon=True).start()
        self.plug_in()

    def plug_in(self):
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.process.pid}/ns/net") == own:
            time.sleep(0.01)
        cable = f"v{self.cluster.cables}"
        self.cluster.cables += 1
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns",
            str(self.process.pid))
        run("ip", "link", "set", cable, "master", "br0", "up")
        self.process.stdin.write("cable\n")
        self.process.stdin.close()
        self.cluster.names.add(self.full_name, self.address)  # publishNotReadyAddresses

    def listen(self):
        for line in self.process.stdout:
            with self.has_line:
                self.lines.append(line.rstrip("\n"))
                self.has_line.notify_all()
        with self.has_line:
            self.is_open = False
            self.has_line.notify_all()

    def log(self):
        with self.has_line:
            return "\n".join(self.lines)

    def wait_for_word(self, word):
        """Until a line has it; False if the pod ends before."""
        with self.has_line:
            self.has_line.wait_for(lambda: not self.is_open or word in "\n".join(self.lines),
                                   PATIENCE_S)
            return word in "\n".join(self.lines)

    def end(self):
        """Its exit status, once it has ended by itself."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "no end"

    def kill(self):
        self.process.kill()
        self.process.wait()


def rights(manifest):
    """As whom the manifest lets the program run."""
    context = manifest.container["securityContext"]
    words = ["setpriv", "--pdeathsig", "KILL"]  # it ends with its pod
    if context["runAsNonRoot"]:
        words += ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    if not context["allowPrivilegeEscalation"]:
        words += ["--no-new-privs"]
    if context["capabilities"]["drop"] == ["ALL"]:
        words += ["--bounding-set=-all", "--inh-caps=-all"]
    return words


def check(condition, what, pods):
    if not condition:
        for pod in pods:
            pod.kill()
        logs = "\n".join(f"--- {pod.name}\n{pod.log()}" for pod in pods)
        raise AssertionError(f"{what}\n{logs}")


# ---- Cases ---------------------------------------------------------------------------------------


def all_pods_at_once(cluster):
    size = cluster.manifest.size
    pods = [Pod(cluster, index) for index in range(size)]
    for pod in pods:
        check(pod.end() == 0, f"{pod.name} has failed", pods)
    check(f"same bits on all {size} ranks" in pods[0].log(), "nothing was trained", pods)


def rank_0_comes_last(cluster):
    """Its name is not known until then: that is said, and asked for again."""
    size = cluster.manifest.size
    pods = [Pod(cluster, index) for index in range(1, size)]
    place = f"{cluster.manifest.pod_name(0)}.{cluster.manifest.pod['spec']['subdomain']}"
    for pod in pods:
        check(pod.wait_for_word(f"{place}: Name or service not known"),
              f"{pod.name} does not say what it waits for", pods)
    check(cluster.names.asked[f"{place}.{ZONE}"] >= 2 * len(pods), "nobody has asked again", pods)
    pods.append(Pod(cluster, 0))
    for pod in pods:
        check(pod.end() == 0, f"{pod.name} has failed", pods)
    check(f"same bits on all {size} ranks" in pods[-1].log(), "nothing was trained", pods)


def a_pod_is_evicted(cluster):
    """The others name its rank and fail, so that the job does."""
    pods = [Pod(cluster, index, ("--epochs", "10000"))
            for index in range(cluster.manifest.size)]
    check(pods[0].wait_for_word("\nepoch "), "nothing is trained", pods)
    pods[-1].kill()
    for pod in pods[:-1]:
        check(pod.end() not in (0, "no end"), f"{pod.name} has not failed", pods)
        check(f"rank {pods[-1].index} " in pod.log(), f"{pod.name} does not say who is lost", pods)


CASES = (all_pods_at_once, rank_0_comes_last, a_pod_is_evicted)


def run_cases(manifest, programs):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(manifest, programs, folder)
        for case in CASES:
            print(f"[ RUN      ] {case.__name__}", flush=True)
            try:
                case(cluster)
                print(f"[       OK ] {case.__name__}")
            except AssertionError as error:
                print(f"{error}\n[  FAILED  ] {case.__name__}")
                failed = 1
            cluster.forget_pods()
    return failed


def main():
    if os.geteuid() != 0:
        skip("it needs root, for networks of its own")
    for tool in ("ip", "unshare", "setpriv"):
        if shutil.which(tool) is None:
            skip(f"no {tool} here (Debian: iproute2, util-linux)")
    if subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "true"],
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        skip("the system gives no namespaces of one's own")
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        skip("the system gives no network of one's own")
    return run_cases(Manifest(sys.argv[1]), os.path.abspath(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())

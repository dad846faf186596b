# name_server.py - names of pods, as a headless Service has them: known once a pod has an address.
# SPDX-License-Identifier: Apache-2.0
import socket
import struct
import threading

TYPE_A, CLASS_IN = 1, 1
ANSWER, NO_SUCH_NAME = 0x8400, 0x8403  # both with authority


class NameServer:
    """Answers on UDP port 53 of an address, from a thread; `asked` counts names that were unknown.

    A name that is known has an IPv4 address and nothing else."""

    def __init__(self, address):
        self.names, self.asked = {}, {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def add(self, name, address):
        self.names[name.lower()] = socket.inet_aton(address)

    def forget(self):
        self.names, self.asked = {}, {}

    def serve(self):
        while True:
            query, sender = self.socket.recvfrom(512)
            try:
                self.socket.sendto(self.answer(query), sender)
            except (IndexError, struct.error):
                pass  # no question at all

    def answer(self, query):
        at, labels = 12, []
        while query[at] != 0:
            labels.append(query[at + 1:at + 1 + query[at]].decode("ascii", "replace"))
            at += 1 + query[at]
        kind, _ = struct.unpack("!HH", query[at + 1:at + 5])
        question = query[12:at + 5]
        name = ".".join(labels).lower()
        address = self.names.get(name)
        if address is None:
            self.asked[name] = self.asked.get(name, 0) + 1
        flags = NO_SUCH_NAME if address is None else ANSWER
        count = 1 if address is not None and kind == TYPE_A else 0
        reply = query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question
        if count:  # the name is that of the question, known for 5 s
            reply += struct.pack("!HHHIH", 0xC00C, TYPE_A, CLASS_IN, 5, 4) + address
        return reply

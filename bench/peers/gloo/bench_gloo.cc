/* bench_gloo.cc - times the operations of Gloo over TCP in the harness of the peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gloo/algorithm.h>
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include "harness.h"

/* Variants are an algorithm and a way to wait, "ring_chunked-busy":
 *
 *   ring               the functions of Gloo, gloo::allreduce() with its default, the ring; they
 *                      only sleep, and there is none for a reduce-scatter
 *   ring_chunked       the algorithm objects, made anew for each operation and size; they can
 *   halving_doubling     sleep  while a thread of the device works
 *                        block  in recv(), on the calling thread
 *                        busy   poll recv(), on the calling thread
 *
 * The names are those of the all-reduce: of the other operations there is one object each, measured
 * with "halving_doubling"; of the all-to-all none. */

namespace
{

using Add = void (*)(void *, const void *, const void *, size_t);
using Call = const harness_call &;

struct Bench {
    harness *h;
    std::string algorithm, waiting;
    std::unique_ptr<gloo::rendezvous::FileStore> store;
    std::shared_ptr<gloo::transport::Device> device;
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::unique_ptr<gloo::Algorithm> object;
    int contexts = 0;
};

void connect(Bench &bench)
{
    gloo::rendezvous::PrefixStore store("context" + std::to_string(bench.contexts++), *bench.store);

    bench.context = std::make_shared<gloo::rendezvous::Context>(bench.h->rank, bench.h->ranks);
    bench.context->connectFullMesh(store, bench.device);
}

/* nullptr: the variant has no such thing. */
template <typename T> gloo::Algorithm *make_object(Bench &bench, Call call)
{
    T *recv = static_cast<T *>(call.recv);
    std::vector<T *> in_place{recv};
    std::vector<int> blocks(bench.h->ranks, static_cast<int>(call.block));
    int count = static_cast<int>(call.count);

    if (bench.algorithm == "ring_chunked")
        return call.op == HARNESS_ALL_REDUCE
                   ? new gloo::AllreduceRingChunked<T>(bench.context, in_place, count)
                   : nullptr;
    switch (call.op) {
    case HARNESS_ALL_REDUCE:
        return new gloo::AllreduceHalvingDoubling<T>(bench.context, in_place, count);
    case HARNESS_REDUCE_SCATTER:
        return new gloo::ReduceScatterHalvingDoubling<T>(bench.context, in_place, count, blocks);
    case HARNESS_ALL_GATHER:
        return new gloo::AllgatherRing<T>(bench.context, {static_cast<const T *>(call.send)}, recv,
                                          static_cast<int>(call.block));
    case HARNESS_BROADCAST:
        return new gloo::BroadcastOneToAll<T>(bench.context, in_place, call.count);
    case HARNESS_BARRIER:
        return new gloo::BarrierAllToAll(bench.context);
    default:
        return nullptr;
    }
}

bool prepare(void *arg, const harness_call *call)
{
    Bench &bench = *static_cast<Bench *>(arg);

    if (call->dtype == HARNESS_BF16)
        return false;
    if (bench.algorithm == "ring") {
        if (!bench.context)
            connect(bench);
        return call->op != HARNESS_REDUCE_SCATTER;
    }
    bench.object.reset();
    harness_meet(bench.h);
    connect(bench);
    bench.object.reset(call->dtype == HARNESS_F16 ? make_object<gloo::float16>(bench, *call)
                                                  : make_object<float>(bench, *call));
    for (int peer = 0; bench.waiting != "sleep" && peer < bench.h->ranks; peer++)
        if (peer != bench.h->rank && bench.context->getPair(peer))
            bench.context->getPair(peer)->setSync(true, bench.waiting == "busy");
    harness_meet(bench.h);
    return bench.object != nullptr;
}

template <typename T> void call_function(Bench &bench, Call call)
{
    T *send = static_cast<T *>(call.send), *recv = static_cast<T *>(call.recv);

    if (call.op == HARNESS_ALL_REDUCE) {
        gloo::AllreduceOptions options(bench.context);

        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setOutput(recv, call.count);
        options.setReduceFunction(static_cast<Add>(&gloo::sum<T>));
        gloo::allreduce(options);
    } else if (call.op == HARNESS_ALL_GATHER) {
        gloo::AllgatherOptions options(bench.context);

        options.setInput(send, call.block);
        options.setOutput(recv, call.count);
        gloo::allgather(options);
    } else if (call.op == HARNESS_BROADCAST) {
        gloo::BroadcastOptions options(bench.context);

        options.setRoot(0);
        options.setOutput(recv, call.count);
        gloo::broadcast(options);
    } else if (call.op == HARNESS_ALL_TO_ALL) {
        gloo::AlltoallOptions options(bench.context);

        options.setInput(send, call.count);
        options.setOutput(recv, call.count);
        gloo::alltoall(options);
    } else {
        gloo::BarrierOptions options(bench.context);

        gloo::barrier(options);
    }
}

/* The objects know one memory: of many at once they carry the first one's, 64 times. */
void run(void *arg, const harness_call *call)
{
    Bench &bench = *static_cast<Bench *>(arg);

    if (bench.object)
        bench.object->run();
    else if (call->dtype == HARNESS_F16)
        call_function<gloo::float16>(bench, *call);
    else
        call_function<float>(bench, *call);
}

int run_rank(harness &h, const std::string &folder)
{
    Bench bench;
    gloo::transport::tcp::attr address("127.0.0.1");
    std::string variant = h.variant;
    size_t dash = variant.find('-');

    bench.h = &h;
    bench.algorithm = variant.substr(0, dash);
    bench.waiting = dash == std::string::npos ? "sleep" : variant.substr(dash + 1);
    h.library_arg = &bench;
    h.has_threads = bench.waiting == "sleep";
    h.prepare = prepare;
    h.call = run;
    harness_open(&h);
    bench.store.reset(new gloo::rendezvous::FileStore(folder));
    address.ai_family = AF_INET;
    bench.device = gloo::transport::tcp::CreateDevice(address);
    return harness_run(&h);
}

} // namespace

int main(int argc, char **argv)
{
    harness h = {};
    char folder[] = "/tmp/bench_gloo.XXXXXX";
    int exit_code = 0;

    h.library = "gloo";
    h.variant = "ring";
    harness_parse(&h, argc, argv);
    if (mkdtemp(folder) == nullptr) {
        std::perror("a folder for the rendezvous");
        return 3;
    }
    if (harness_fork(&h, &exit_code)) {
        exit_code = run_rank(h, folder);
        std::fflush(stdout);
        _exit(exit_code); /* the pairs of a peer that has gone first would complain */
    }
    std::filesystem::remove_all(folder);
    return exit_code;
}

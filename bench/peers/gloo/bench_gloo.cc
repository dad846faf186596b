/* bench_gloo.cc - times the all-reduces of Gloo over TCP in the harness of the peers. */
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
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include "harness.h"

/* Variants are an algorithm and a way to wait, "ring_chunked-busy":
 *
 *   ring               the function gloo::allreduce() with its default; it only sleeps
 *   ring_chunked       the algorithm objects, made anew for each size; they can
 *   halving_doubling     sleep  while a thread of the device works
 *                        block  in recv(), on the calling thread
 *                        busy   poll recv(), on the calling thread */

namespace
{

using Add = void (*)(void *, const void *, const void *, size_t);

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

void prepare(void *arg, size_t count)
{
    Bench &bench = *static_cast<Bench *>(arg);
    std::vector<float *> buffers{bench.h->buffer};

    if (bench.algorithm == "ring" && bench.context)
        return;
    bench.object.reset();
    harness_meet(bench.h);
    connect(bench);
    if (bench.algorithm == "ring_chunked")
        bench.object.reset(
            new gloo::AllreduceRingChunked<float>(bench.context, buffers, static_cast<int>(count)));
    else if (bench.algorithm == "halving_doubling")
        bench.object.reset(new gloo::AllreduceHalvingDoubling<float>(bench.context, buffers,
                                                                     static_cast<int>(count)));
    for (int peer = 0; bench.waiting != "sleep" && peer < bench.h->ranks; peer++)
        if (peer != bench.h->rank && bench.context->getPair(peer))
            bench.context->getPair(peer)->setSync(true, bench.waiting == "busy");
    harness_meet(bench.h);
}

void call(void *arg, size_t count)
{
    Bench &bench = *static_cast<Bench *>(arg);

    if (bench.object) {
        bench.object->run();
        return;
    }
    gloo::AllreduceOptions options(bench.context);

    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(bench.h->buffer, count);
    options.setReduceFunction(static_cast<Add>(&gloo::sum<float>));
    gloo::allreduce(options);
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
    h.call = call;
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

// The emulator's scheduler: the threads of a block, or of the blocks of a cluster, as fibers of one processor thread, one after
// the other.
//
// A thread runs until it waits: at a barrier of its block or cluster, or at a meeting of its warp (a shuffle, a vote, a matrix
// product). Whoever comes last to a meeting does its work for all, on the operands that the others left on their own
// stacks. Threads that can never go on are an error with a message, and so is memory that is not the device's.
//
// Kernels are compiled with its declarations; what is between EMULATOR_BODIES is compiled once and linked to each.

#define KELVIN_EMULATED

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <vector>
#ifdef EMULATOR_BODIES
// Not with every kernel, which would be a tenth of its compilation.
#include <mutex>
#endif

// Each library has its own, and reaches it without a table.
#pragma GCC visibility push(hidden)

#ifdef EMULATOR_BODIES
#define EMULATOR_STATE
#else
#define EMULATOR_STATE extern
#endif

// Saves the caller's registers on its stack, its stack pointer in *save, and goes on where `load` was saved.
extern "C" void kelvin_switch(void** save, void* load) asm("kelvin_switch");

#ifdef EMULATOR_BODIES
#if defined(__x86_64__)
asm(R"(
.text
.globl kelvin_switch
.hidden kelvin_switch
kelvin_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl kelvin_switch
.hidden kelvin_switch
kelvin_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#else
#error "the emulator switches between fibers on x86-64 and AArch64 only"
#endif
#endif

struct uint3 {
    unsigned x, y, z;
};
typedef uint3 dim3;

EMULATOR_STATE uint3 threadIdx, blockIdx;
EMULATOR_STATE dim3 blockDim, gridDim;

namespace emulator {

constexpr unsigned MAX_THREADS = 2048, WARP = 32, MAX_BLOCKS = 8;
constexpr size_t STACK_BYTES = 128 << 10, SHARED_BYTES = 256 << 10;
// What memory holds that nobody has written: not a number as a float.
constexpr int POISON = 0xFF;

// A line of a kernel.
struct Place {
    const char* file;
    int line;

    static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return Place{file, line};
    }
};

enum class State { ready, at_barrier, at_cluster_barrier, at_meeting, finished };

// Sixteen bytes on their way into shared memory.
struct Copy {
    void* to;
    const void* from;
    bool valid;
    unsigned group;
    unsigned num_bytes;
};

// An operand of a warpgroup's product: bytes from the start of shared memory, and from one core matrix to the next.
struct Operand {
    unsigned first, along_k, across;
    bool is_across;

    bool is_like(const Operand& other) const {
        return first == other.first && along_k == other.along_k && across == other.across && is_across == other.is_across;
    }
};

// A product of a warpgroup that has been asked for. It happens when it is waited for; until then the sum is poison.
struct Product {
    float* sum;
    unsigned columns;
    Operand a, b;
    bool adds;
    unsigned group;
    // What the sum held, if no product of it was under way before.
    std::vector<float> held;

    bool is_like(const Product& other) const {
        return columns == other.columns && a.is_like(other.a) && b.is_like(other.b) && adds == other.adds;
    }
};

// One thread of a block.
struct Fiber {
    void* stack_pointer;
    State state;
    // What it waits for.
    const char* word;
    Place place;
    unsigned mask;
    void (*resolve)(void* const* operations, unsigned present);
    void* operation;
    // Copies that it began and has not waited for.
    std::vector<Copy> copies;
    unsigned num_groups;
    // Products that it asked for and has not waited for.
    std::vector<Product> products;
    unsigned num_product_groups;
    // Phases of bulk copies that it has waited for, and times that it came to `first_warp_waits`.
    unsigned num_phases, num_arrivals;
};

// Lanes that have not returned, and those of them that wait at a meeting.
struct Warp {
    unsigned alive, at_meeting;
};

EMULATOR_STATE Fiber fibers[MAX_THREADS];
EMULATOR_STATE Warp warps[MAX_THREADS / WARP];
// Of a block.
EMULATOR_STATE unsigned num_threads;
// Of a cluster: blocks, threads in all of them that have not returned, and how many of each block wait.
EMULATOR_STATE unsigned num_blocks, num_alive, num_alive_of[MAX_BLOCKS], num_at_barrier[MAX_BLOCKS], num_at_cluster_barrier;
EMULATOR_STATE unsigned current;
EMULATOR_STATE void* scheduler;
// Shared memory of the block that runs.
EMULATOR_STATE unsigned char *stacks, *shared_end, *shared_memory;
EMULATOR_STATE size_t page_bytes, shared_bytes;

EMULATOR_STATE void (*call)(const void* arguments);
EMULATOR_STATE const void* call_arguments;

EMULATOR_STATE bool failed;
EMULATOR_STATE char message[2048];
EMULATOR_STATE sigjmp_buf fault;

// Whether the thread that ran last only looked whether it can go on.
EMULATOR_STATE bool ran_in_vain;
// Whether what comes by itself may come: as early as can be in a block whose last thread runs first, and when nobody can do
// anything else in one whose first does.
EMULATOR_STATE bool may_arrive;

inline unsigned block_of(unsigned thread) { return thread / num_threads; }

// That of the last block ends where the forbidden page begins, but for what aligns it.
inline unsigned char* shared_of(unsigned block) { return shared_end - (num_blocks - block) * shared_bytes; }

inline void suspend() { kelvin_switch(&fibers[current].stack_pointer, scheduler); }

// Ends the launch with an error: the thread never goes on.
[[noreturn]] void fail(Place place, const char* format, ...);

// Lets the threads that `like` waits for go on if all of them that are left have come to the same meeting.
void settle_meeting(unsigned first, const Fiber& like);

// Waits for all threads of the block; `resolve`, if any, is called once with everyone's operation.
void wait_for_block(const char* word, Place place, void* operation = nullptr,
                    void (*resolve)(void* const*, unsigned) = nullptr);

// Waits for all threads of the cluster.
void wait_for_cluster(const char* word, Place place);

// Waits for the threads of the warp that `mask` names; then `Operation::resolve` has been called once for all.
template <class Operation>
static void meet(unsigned mask, Operation& own, const char* word, Place place) {
    Fiber& self = fibers[current];
    if (!(mask >> (current % WARP) & 1)) fail(place, "%s with the mask %08x, which leaves this lane out", word, mask);
    self.word = word;
    self.place = place;
    self.mask = mask;
    self.operation = &own;
    self.resolve = [](void* const* operations, unsigned present) {
        Operation::resolve(reinterpret_cast<Operation* const*>(operations), present);
    };
    self.state = State::at_meeting;
    warps[current / WARP].at_meeting |= 1u << current % WARP;
    settle_meeting(current - current % WARP, self);
    if (self.state != State::ready) suspend();
}

// Lets others run until `holds`.
template <class Condition>
static void wait_until(const char* word, Place place, const Condition& holds) {
    Fiber& self = fibers[current];
    self.word = word;
    self.place = place;
    for (bool has_moved = true; !holds(); has_moved = false) {
        ran_in_vain = !has_moved;
        suspend();
    }
}

struct Launch {
    const void* arguments;
    size_t num_argument_bytes;
    unsigned grid[3];
    unsigned block, cluster;
    size_t shared_bytes;
    // In which order threads run; kernels must not depend on it.
    bool backward;
};

// Runs all blocks; says whether it went well, and otherwise what happened in `report`.
bool run_blocks(void (*kernel)(const void* arguments), size_t num_argument_bytes, const Launch& launch, char* report,
                size_t report_bytes);

// Ends the launch because the running thread touched `address`.
[[noreturn]] void touched(const void* address);

#ifdef EMULATOR_BODIES
void fail(Place place, const char* format, ...) {
    int length = snprintf(message, sizeof message, "%s:%d: thread %u of block (%u, %u, %u): ", place.file, place.line,
                          threadIdx.x, blockIdx.x, blockIdx.y, blockIdx.z);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + length, sizeof message - length, format, arguments);
    va_end(arguments);
    failed = true;
    for (;;) suspend();
}

void settle_meeting(unsigned first, const Fiber& like) {
    Warp& warp = warps[first / WARP];
    const unsigned present = like.mask & warp.alive;
    if (present & ~warp.at_meeting) return;
    void* operations[WARP] = {};
    for (unsigned lane = 0; lane < WARP; lane++) {
        const Fiber& fiber = fibers[first + lane];
        if (!(present >> lane & 1)) continue;
        if (fiber.mask != like.mask || strcmp(fiber.word, like.word)) return;
        operations[lane] = fiber.operation;
    }
    like.resolve(operations, present);
    warp.at_meeting &= ~present;
    for (unsigned lane = 0; lane < WARP; lane++)
        if (present >> lane & 1) fibers[first + lane].state = State::ready;
}

// Lets the waiting threads from `first` to `end` go on, who are all that are left, if they have come to the same barrier.
static bool settle_barrier(State waiting, unsigned first, unsigned end) {
    const Fiber* like = nullptr;
    std::vector<void*> operations;
    for (unsigned i = first; i < end; i++) {
        Fiber& fiber = fibers[i];
        if (fiber.state != waiting) continue;
        if (!like) like = &fiber;
        // Left waiting, they are reported as such.
        if (fiber.place.line != like->place.line || strcmp(fiber.place.file, like->place.file)) return false;
        if (fiber.operation) operations.push_back(fiber.operation);
    }
    if (like->resolve) like->resolve(operations.data(), (unsigned)operations.size());
    for (unsigned i = first; i < end; i++)
        if (fibers[i].state == waiting) fibers[i].state = State::ready;
    return true;
}

static void settle_block(unsigned block) {
    if (num_alive_of[block] == 0 || num_at_barrier[block] < num_alive_of[block]) return;
    if (settle_barrier(State::at_barrier, block * num_threads, (block + 1) * num_threads)) num_at_barrier[block] = 0;
}

static void settle_cluster() {
    if (num_alive == 0 || num_at_cluster_barrier < num_alive) return;
    if (settle_barrier(State::at_cluster_barrier, 0, num_blocks * num_threads)) num_at_cluster_barrier = 0;
}

void wait_for_block(const char* word, Place place, void* operation, void (*resolve)(void* const*, unsigned)) {
    Fiber& self = fibers[current];
    self.word = word;
    self.place = place;
    self.operation = operation;
    self.resolve = resolve;
    self.state = State::at_barrier;
    num_at_barrier[block_of(current)]++;
    settle_block(block_of(current));
    if (self.state != State::ready) suspend();
}

void wait_for_cluster(const char* word, Place place) {
    Fiber& self = fibers[current];
    self.word = word;
    self.place = place;
    self.operation = nullptr;
    self.resolve = nullptr;
    self.state = State::at_cluster_barrier;
    num_at_cluster_barrier++;
    settle_cluster();
    if (self.state != State::ready) suspend();
}

static void fiber_main() {
    call(call_arguments);
    const unsigned first = current - current % WARP;
    fibers[current].state = State::finished;
    warps[current / WARP].alive &= ~(1u << current % WARP);
    num_alive--;
    num_alive_of[block_of(current)]--;
    for (unsigned i = first; i < first + WARP && i < num_blocks * num_threads; i++)
        if (fibers[i].state == State::at_meeting) settle_meeting(first, fibers[i]);
    settle_block(block_of(current));
    settle_cluster();
    for (;;) suspend();
}

static void prepare_fiber(unsigned index) {
    Fiber& fiber = fibers[index];
    // Stacks begin at different lines of the cache.
    auto top = reinterpret_cast<void**>(stacks + (index + 1) * STACK_BYTES - index % 61 * 192);
#if defined(__x86_64__)
    *--top = nullptr;  // nowhere to return to
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int i = 0; i < 6; i++) *--top = nullptr;
#else
    top -= 20;
    memset(top, 0, 160);
    top[11] = reinterpret_cast<void*>(&fiber_main);
#endif
    fiber.stack_pointer = top;
    fiber.state = State::ready;
    fiber.copies.clear();
    fiber.num_groups = 0;
    fiber.products.clear();
    fiber.num_product_groups = 0;
    fiber.num_phases = fiber.num_arrivals = 0;
}

// The first block of the cluster.
static unsigned first_block;

static bool run_if_ready(unsigned index) {
    if (fibers[index].state != State::ready || failed) return false;
    current = index;
    threadIdx.x = index % num_threads;
    blockIdx.x = first_block + block_of(index);
    shared_memory = shared_of(block_of(index));
    ran_in_vain = false;
    kelvin_switch(&scheduler, fibers[index].stack_pointer);
    return !ran_in_vain;
}

static void report_deadlock() {
    failed = true;
    int length = snprintf(message, sizeof message, "block (%u, %u, %u) cannot go on:", blockIdx.x, blockIdx.y, blockIdx.z);
    const unsigned num_fibers = num_blocks * num_threads;
    for (unsigned i = 0; i < num_fibers && length < (int)sizeof message - 200; i++) {
        const Fiber& fiber = fibers[i];
        auto same = [&](const Fiber& other) {
            return other.state == fiber.state && other.place.line == fiber.place.line && other.word == fiber.word;
        };
        if (fiber.state == State::finished || (i > 0 && same(fibers[i - 1]))) continue;
        unsigned last = i;
        while (last + 1 < num_fibers && same(fibers[last + 1])) last++;
        length += snprintf(message + length, sizeof message - length, "\n  threads %u to %u wait in %s at %.80s:%d", i, last,
                           fiber.word, fiber.place.file, fiber.place.line);
    }
    if (num_alive < num_fibers)
        snprintf(message + length, sizeof message - length, "\n  %u threads have returned", num_fibers - num_alive);
}

static void run_cluster(bool backward) {
    const unsigned num_fibers = num_blocks * num_threads;
    memset(shared_of(0), POISON, shared_end - shared_of(0));
    first_block = blockIdx.x;
    num_alive = num_fibers;
    num_at_cluster_barrier = 0;
    for (unsigned block = 0; block < num_blocks; block++) num_alive_of[block] = num_threads, num_at_barrier[block] = 0;
    may_arrive = backward;
    memset(warps, 0, sizeof warps);
    for (unsigned i = 0; i < num_fibers; i++) {
        prepare_fiber(i);
        warps[i / WARP].alive |= 1u << i % WARP;
    }
    const unsigned num_warps = (num_fibers + WARP - 1) / WARP;
    while (num_alive > 0 && !failed) {
        bool any = false;
        for (unsigned i = 0; i < num_warps; i++) {
            const unsigned first = (backward ? num_warps - 1 - i : i) * WARP;
            const unsigned lanes = first + WARP < num_fibers ? WARP : num_fibers - first;
            for (bool moved = true; moved;) {
                moved = false;
                for (unsigned lane = 0; lane < lanes; lane++)
                    moved |= run_if_ready(first + (backward ? lanes - 1 - lane : lane));
                any |= moved;
            }
        }
        if (!any && may_arrive && !failed) report_deadlock();
        may_arrive = backward || !any;
    }
}

static unsigned char* reserve(size_t num_bytes) {
    void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
}

static size_t num_reserved() { return MAX_THREADS * STACK_BYTES + MAX_BLOCKS * SHARED_BYTES + page_bytes; }

// A process that loads and unloads hundreds of kernels would run out of mappings.
static struct GivenBackWithTheKernel {
    ~GivenBackWithTheKernel() {
        if (stacks) munmap(stacks, num_reserved());
    }
} given_back_with_the_kernel;

// Stacks, some with a page below that must not be touched, and shared memory with one behind it.
static bool reserve_memory(unsigned num_threads) {
    // Each page apart is a mapping of its own, of which a process has some tens of thousands, and each kernel has its own
    // stacks: no more than are needed. Threads go equally deep, so that one of eight will do.
    static unsigned num_guarded = 0;
    const auto guard = [&] {
        for (; num_guarded < num_threads && num_guarded < MAX_THREADS; num_guarded += 8) {
            mprotect(stacks + num_guarded * STACK_BYTES, page_bytes, PROT_NONE);
        }
    };
    if (stacks) {
        guard();
        return true;
    }
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char* memory = reserve(num_reserved());
    if (!memory) return false;
    shared_end = memory + MAX_THREADS * STACK_BYTES + MAX_BLOCKS * SHARED_BYTES;
    mprotect(shared_end, page_bytes, PROT_NONE);
    stacks = memory;
    guard();
    return true;
}

static std::mutex one_launch_at_a_time;

bool run_blocks(void (*kernel)(const void*), size_t num_argument_bytes, const Launch& launch, char* report,
                size_t report_bytes) {
    std::lock_guard<std::mutex> guard(one_launch_at_a_time);
    if (!reserve_memory(launch.block * launch.cluster)) {
        snprintf(report, report_bytes, "no memory for the stacks of the threads");
        return false;
    }
    if ((num_argument_bytes + 7) / 8 * 8 != launch.num_argument_bytes) {
        snprintf(report, report_bytes, "the kernel's arguments take %zu bytes, the launch gives %zu",
                 num_argument_bytes, launch.num_argument_bytes);
        return false;
    }
    call = kernel;
    call_arguments = launch.arguments;
    num_threads = launch.block;
    num_blocks = launch.cluster;
    shared_bytes = (launch.shared_bytes + 127) / 128 * 128;
    gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    blockDim = {launch.block, 1, 1};
    failed = false;
    if (sigsetjmp(fault, 1) == 0) {
        for (blockIdx.z = 0; blockIdx.z < gridDim.z && !failed; blockIdx.z++)
            for (blockIdx.y = 0; blockIdx.y < gridDim.y && !failed; blockIdx.y++)
                for (unsigned x = 0; x < gridDim.x && !failed; x += num_blocks) {
                    blockIdx.x = x;
                    run_cluster(launch.backward != (x / num_blocks % 2 == 1));
                }
    }
    if (failed) snprintf(report, report_bytes, "%s", message);
    return !failed;
}

void touched(const void* address) {
    auto place = static_cast<const unsigned char*>(address);
    const bool on_stack = place >= stacks && place < stacks + MAX_THREADS * STACK_BYTES;
    const bool behind_shared = place >= shared_end && place < shared_end + page_bytes;
    snprintf(message, sizeof message, "thread %u of block (%u, %u, %u) touches %p, %s", current, blockIdx.x, blockIdx.y,
             blockIdx.z, address,
             on_stack        ? "the end of its stack"
             : behind_shared ? "behind the end of its dynamic shared memory"
                             : "which is not the device's memory");
    failed = true;
    siglongjmp(fault, 1);
}

#endif

template <auto kernel>
struct Entry;
template <class Arguments, void (*kernel)(Arguments)>
struct Entry<kernel> {
    static bool run(const Launch& launch, char* report, size_t report_bytes) {
        const auto call = [](const void* arguments) { kernel(*static_cast<const Arguments*>(arguments)); };
        return run_blocks(call, sizeof(Arguments), launch, report, report_bytes);
    }
};

}  // namespace emulator

#pragma GCC visibility pop

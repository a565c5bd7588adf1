/* Simulates faults of the machine for one process: preloaded by the tests. The file in DEHYDRATOR_MACHINE holds up to three
 * 64-bit numbers, which may change at any moment: the offset of the real-time clock (and of no other clock) in
 * microseconds; if it is not 0, the error with which a fork fails; and, if it is not 0, the time in microseconds at which the
 * real-time clock stands still. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t none[3];
static volatile int64_t *wanted = none;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("DEHYDRATOR_MACHINE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) wanted = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    int64_t still = wanted[2];
    int64_t us = still ? still : (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000 + wanted[0];
    now->tv_sec = us / 1000000;
    now->tv_nsec = us % 1000000 * 1000 + now->tv_nsec % 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

pid_t fork(void) {
    if (wanted[1]) {
        errno = (int)wanted[1];
        return -1;
    }
    pid_t (*real)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "fork");
    return real();
}

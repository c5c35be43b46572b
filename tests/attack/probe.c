/*
 * System calls that a confined command must not get away with.
 *
 *     probe NAME [ARGUMENT...]
 *
 * A child makes the call. If that succeeds the child stays, under the name in $NAME and with whatever it has
 * got, so that the host can look at it. Exit status: 0 if it stays, 1 if the call was refused.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char **words;

static const char *word(int number) {
    for (int i = 0; i <= number; i++)
        if (!words[i])
            return "";
    return words[number];
}

static long number(int at) {
    return strtol(word(at), NULL, 0);
}

static bool ok(long result) {
    if (result < 0)
        perror("probe");
    return result >= 0;
}

/* ---- what stays open ---- */

static bool nothing(void) {
    return true;
}

/* Whoever opens the file from now on waits. */
static bool leased(void) {
    int file = open(word(0), O_RDONLY);
    return ok(file) && ok(fcntl(file, F_SETLEASE, F_WRLCK));
}

/* Opens a file and, if it is for reading, reads from it: the host sees how far. */
static bool opened(void) {
    bool writes = strchr(word(1), 'w') != NULL;
    int file = open(word(0), writes ? O_WRONLY | O_NOCTTY : O_RDONLY | O_NOCTTY | O_NONBLOCK);
    char text[4096];
    return ok(file) && (writes || ok(read(file, text, sizeof text)));
}

static bool made_socket(void) {
    return ok(socket((int)number(0), (int)number(1), (int)number(2)));
}

static bool bpf_map(void) {
    union bpf_attr attributes = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return ok(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

static bool perf_event(void) {
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attributes, .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = 1};
    return ok(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

static bool user_fault(void) {
    return ok(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY));
}

static bool ring(void) {
    struct io_uring_params parameters = {0};
    return ok(syscall(SYS_io_uring_setup, 4, &parameters));
}

static bool file_system_context(void) {
    return ok(syscall(SYS_fsopen, "tmpfs", 0));
}

static bool tree(void) {
    return ok(syscall(SYS_open_tree, AT_FDCWD, word(0), 1 /* OPEN_TREE_CLONE */));
}

static bool by_handle(void) {
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } handle = {0};
    const char *digits = word(1);
    handle.head.handle_type = (int)number(0);
    handle.head.handle_bytes = (unsigned)strlen(digits) / 2;
    for (unsigned i = 0; i < handle.head.handle_bytes; i++)
        sscanf(digits + 2 * i, "%2hhx", &handle.head.f_handle[i]);
    int file = open_by_handle_at(open(".", O_RDONLY), &handle.head, O_RDONLY);
    char text[256];
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text);
    return ok(size) && write(1, text, (size_t)size) == size;
}

/* ---- namespaces and mounts ---- */

static bool unshared(void) {
    return ok(unshare((int)number(0)));
}

/* A child in a new namespace stays in place of this process. */
static bool cloned(void) {
    long pid = syscall(SYS_clone, number(0) | SIGCHLD, 0, 0, 0, 0);
    if (pid > 0)
        for (;;)
            pause();
    return ok(pid);
}

static bool cloned3(void) {
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } arguments = {.flags = (uint64_t)number(0), .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid > 0)
        for (;;)
            pause();
    return ok(pid);
}

static bool entered(void) {
    int file = open(word(0), O_RDONLY);
    return ok(file) && ok(setns(file, (int)number(1)));
}

static bool entered_process(void) {
    int file = (int)syscall(SYS_pidfd_open, number(0), 0);
    return ok(file) && ok(setns(file, (int)number(1)));
}

static bool mounted(void) {
    return ok(mount("none", word(0), "tmpfs", 0, "size=16k"));
}

static bool bound(void) {
    return ok(mount(word(0), word(1), NULL, MS_BIND, NULL));
}

static bool remounted(void) {
    return ok(mount("none", word(0), NULL, MS_REMOUNT | MS_BIND, NULL));
}

static bool moved(void) {
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, word(0), 0);
    return ok(tree) && ok(syscall(SYS_move_mount, tree, "", AT_FDCWD, word(1), 4 /* MOVE_MOUNT_F_EMPTY_PATH */));
}

static bool unmounted(void) {
    return ok(umount2(word(0), MNT_DETACH));
}

static bool attributed(void) {
    struct {
        uint64_t set, clear, propagation, userns;
    } attributes = {.clear = 1 /* MOUNT_ATTR_RDONLY */};
    return ok(syscall(SYS_mount_setattr, AT_FDCWD, word(0), 0, &attributes, sizeof attributes));
}

static bool rooted(void) {
    return ok(chroot(word(0)));
}

static bool pivoted(void) {
    return ok(mount("none", word(0), "tmpfs", 0, "size=16k")) && ok(chdir(word(0))) && ok(mkdir("old", 0700)) &&
           ok(syscall(SYS_pivot_root, ".", "old"));
}

/* ---- other processes ---- */

static bool traced(void) {
    return ok(ptrace(PTRACE_ATTACH, (pid_t)number(0), 0, 0));
}

static bool seized(void) {
    return ok(ptrace(PTRACE_SEIZE, (pid_t)number(0), 0, 0));
}

static bool read_memory(void) {
    char text[256] = "";
    struct iovec to = {text, sizeof text - 1}, from = {(void *)strtoul(word(1), NULL, 0), 64};
    return ok(process_vm_readv((pid_t)number(0), &to, 1, &from, 1, 0)) && puts(text) >= 0 && fflush(stdout) == 0;
}

static bool wrote_memory(void) {
    char text[64] = "overwritten";
    struct iovec from = {text, sizeof text}, to = {(void *)strtoul(word(1), NULL, 0), 64};
    return ok(process_vm_writev((pid_t)number(0), &from, 1, &to, 1, 0));
}

static bool got_descriptor(void) {
    int process = (int)syscall(SYS_pidfd_open, number(0), 0);
    return ok(process) && ok(syscall(SYS_pidfd_getfd, process, number(1), 0));
}

static bool advised(void) {
    int process = (int)syscall(SYS_pidfd_open, number(0), 0);
    struct iovec what = {(void *)(strtoul(word(1), NULL, 0) & ~4095UL), 4096};
    return ok(process) && ok(syscall(SYS_process_madvise, process, &what, 1, 20 /* MADV_COLD */, 0));
}

static bool killed(void) {
    return ok(kill((pid_t)number(0), (int)number(1)));
}

static bool thread_killed(void) {
    return ok(syscall(SYS_tgkill, number(0), number(0), number(1)));
}

static bool queued(void) {
    union sigval value = {.sival_int = 7};
    return ok(sigqueue((pid_t)number(0), (int)number(1), value));
}

static bool process_killed(void) {
    int process = (int)syscall(SYS_pidfd_open, number(0), 0);
    return ok(process) && ok(syscall(SYS_pidfd_send_signal, process, number(1), NULL, 0));
}

static bool descriptor_killed(void) {
    return ok(syscall(SYS_pidfd_send_signal, number(0), number(1), NULL, 0));
}

/* The kernel sends the signal, when something comes in. */
static bool owned_signal(void) {
    int ends[2];
    if (!ok(pipe(ends)) || !ok(fcntl(ends[0], F_SETSIG, (int)number(1))) ||
        !ok(fcntl(ends[0], F_SETOWN, (int)number(0))) || !ok(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK)))
        return false;
    return write(ends[1], "x", 1) == 1;
}

/* Signals that wait count for the user, not for the process. */
static bool flooded(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    union sigval value = {.sival_int = 0};
    while (sigqueue(getpid(), SIGRTMIN + 1, value) == 0) {
    }
    return true;
}

/* Sends a signal again and again, with a value if such signals wait all. */
static bool pestering(void) {
    pid_t pid = (pid_t)number(0);
    int signal_number = (int)number(1);
    if (fork() == 0) {
        prctl(PR_SET_NAME, getenv("NAME"));
        for (;;) {
            union sigval value = {.sival_int = 0};
            if (signal_number >= SIGRTMIN)
                sigqueue(pid, signal_number, value);
            else
                kill(pid, signal_number);
        }
    }
    return true;
}

/* Exchanges two paths until somebody ends it. */
static bool exchanged(void) {
    return ok(syscall(SYS_renameat2, AT_FDCWD, word(0), AT_FDCWD, word(1), 2 /* RENAME_EXCHANGE */));
}

static bool swapping(void) {
    /* Before it is told that this runs: whoever wants to end it looks for the name. */
    prctl(PR_SET_NAME, getenv("NAME"));
    if (!exchanged())
        return false;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            exchanged();
    return ok(pid);
}

/* A stopped process is not asked what to do with a signal that ends it. */
static bool stopped(void) {
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, getenv("NAME"));
        raise(SIGSTOP);
    }
    return ok(waitpid(pid, NULL, WUNTRACED));
}

static bool traced_child(void) {
    pid_t parent = getpid();
    if (fork() == 0) {
        if (ptrace(PTRACE_SEIZE, parent, 0, 0) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    return true;
}

static bool vforked(void) {
    if (fork() == 0) {
        prctl(PR_SET_NAME, getenv("NAME"));
        if (vfork() == 0)
            for (;;)
                pause();
    }
    return true;
}

static bool renice(void) {
    /* The highest niceness: nobody needs a privilege to raise it. */
    return ok(syscall(SYS_setpriority, 0, number(0), 19));
}

static bool limited(void) {
    uint64_t limit[2] = {16, 16};
    return ok(syscall(SYS_prlimit64, number(0), 7 /* RLIMIT_NOFILE */, limit, NULL));
}

static bool scheduled(void) {
    unsigned long mask = 1;
    return ok(syscall(SYS_sched_setaffinity, number(0), sizeof mask, &mask));
}

static bool moved_pages(void) {
    return ok(syscall(SYS_migrate_pages, number(0), 0, NULL, NULL));
}

static bool grouped(void) {
    return ok(setpgid(0, (pid_t)number(0)));
}

/* ---- inter-process communication ---- */

static bool make_shm(void) {
    int id = shmget((key_t)number(0), 4096, IPC_CREAT | 0600);
    char *at = ok(id) ? shmat(id, NULL, 0) : (void *)-1;
    return at != (void *)-1 && strcpy(at, word(1));
}

static bool make_msg(void) {
    struct {
        long kind;
        char text[128];
    } given = {.kind = 1};
    strncpy(given.text, word(1), sizeof given.text - 1);
    int id = msgget((key_t)number(0), IPC_CREAT | 0600);
    return ok(id) && ok(msgsnd(id, &given, sizeof given.text, 0));
}

static bool make_sem(void) {
    return ok(semget((key_t)number(0), 1, IPC_CREAT | 0600));
}

static bool make_mq(void) {
    long file = syscall(SYS_mq_open, word(0) + 1, O_RDWR | O_CREAT, 0600, NULL);
    return ok(file) && ok(syscall(SYS_mq_timedsend, file, word(1), strlen(word(1)), 0, NULL));
}

static bool shared_memory(void) {
    int id = shmget((key_t)number(0), 4096, 0600);
    const char *at = ok(id) ? shmat(id, NULL, SHM_RDONLY) : (void *)-1;
    return at != (void *)-1 && puts(at) >= 0 && fflush(stdout) == 0;
}

static bool message(void) {
    struct {
        long kind;
        char text[128];
    } got;
    int id = msgget((key_t)number(0), 0600);
    return ok(id) && ok(msgrcv(id, &got, sizeof got.text, 0, IPC_NOWAIT)) && puts(got.text) >= 0 && fflush(stdout) == 0;
}

static bool semaphore_removed(void) {
    int id = semget((key_t)number(0), 0, 0600);
    return ok(id) && ok(semctl(id, 0, IPC_RMID));
}

static bool queue(void) {
    long file = syscall(SYS_mq_open, word(0) + 1, O_RDONLY | O_NONBLOCK, 0, NULL);
    char text[8192] = "";
    return ok(file) && ok(syscall(SYS_mq_timedreceive, file, text, sizeof text, NULL, NULL)) && puts(text) >= 0 &&
           fflush(stdout) == 0;
}

static bool key(void) {
    const char *what = words[1] ? words[1] : "planted";
    return ok(syscall(SYS_add_key, "user", word(0), what, strlen(what), -3L /* the session keyring */));
}

static bool key_requested(void) {
    long id = syscall(SYS_request_key, "user", word(0), NULL, 0L);
    char text[256] = "";
    return ok(id) && ok(syscall(SYS_keyctl, 11L /* KEYCTL_READ */, id, text, sizeof text)) && puts(text) >= 0 &&
           fflush(stdout) == 0;
}

static bool keyring_cleared(void) {
    return ok(syscall(SYS_keyctl, 7L /* KEYCTL_CLEAR */, -3L));
}

static void address_of(struct sockaddr_un *address, socklen_t *size) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const char *name = word(0);
    strncpy(address->sun_path, name, sizeof address->sun_path - 1);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    /* An abstract name begins with NUL; here it is written with @. */
    if (name[0] == '@')
        address->sun_path[0] = 0;
}

static bool connected(void) {
    struct sockaddr_un address;
    socklen_t size;
    address_of(&address, &size);
    int file = socket(AF_UNIX, (int)number(1), 0);
    return ok(file) && ok(connect(file, (void *)&address, size));
}

static struct msghdr datagram(struct sockaddr_un *address, struct iovec *text) {
    socklen_t size;
    address_of(address, &size);
    *text = (struct iovec){"out", 3};
    return (struct msghdr){.msg_name = address, .msg_namelen = size, .msg_iov = text, .msg_iovlen = 1};
}

static bool sent(void) {
    struct sockaddr_un address;
    struct iovec text;
    struct msghdr what = datagram(&address, &text);
    int file = socket(AF_UNIX, SOCK_DGRAM, 0);
    return ok(file) && ok(sendto(file, "out", 3, 0, what.msg_name, what.msg_namelen));
}

static bool message_sent(void) {
    struct sockaddr_un address;
    struct iovec text;
    struct msghdr what = datagram(&address, &text);
    int file = socket(AF_UNIX, SOCK_RAW, 0);
    return ok(file) && ok(sendmsg(file, &what, 0));
}

static bool many_sent(void) {
    struct sockaddr_un address;
    struct iovec text;
    struct mmsghdr what = {.msg_hdr = datagram(&address, &text)};
    int ends[2];
    return ok(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) && ok(sendmmsg(ends[0], &what, 1, 0));
}

/* Sends a descriptor of this directory. */
static bool passed(void) {
    struct sockaddr_un address;
    struct iovec text;
    struct msghdr what = datagram(&address, &text);
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } rights = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    *(int *)(void *)CMSG_DATA(&rights.head) = open(".", O_RDONLY);
    what.msg_control = &rights;
    what.msg_controllen = sizeof rights;
    int ends[2];
    return ok(socketpair(AF_UNIX, SOCK_RAW, 0, ends)) && ok(sendmsg(ends[0], &what, 0));
}

/* ---- of the kernel ---- */

static bool typed(void) {
    char letter = 'x';
    return ok(ioctl((int)number(0), TIOCSTI, &letter));
}

static bool selected(void) {
    char what[16] = {2 /* TIOCL_SETSEL */};
    return ok(ioctl((int)number(0), TIOCLINUX, what));
}

static bool foreign(void) {
    return ok(personality(PER_LINUX32 | ADDR_NO_RANDOMIZE));
}

static bool module(void) {
    return ok(syscall(SYS_init_module, "", 0, "")) || errno == ENOEXEC;
}

static bool kernel_log(void) {
    char text[4096];
    return ok(syscall(SYS_syslog, 3 /* READ_ALL */, text, sizeof text));
}

static bool host_named(void) {
    return ok(sethostname(word(0), strlen(word(0))));
}

static bool device(void) {
    return ok(mknod(word(0), S_IFCHR | 0666, (dev_t)number(1))) && ok(open(word(0), O_RDONLY));
}

static bool capable(void) {
    struct {
        uint32_t version;
        int pid;
    } head = {0x20080522, 0};
    struct {
        uint32_t effective, permitted, inheritable;
    } sets[2] = {{1U << 21, 1U << 21, 0}, {0, 0, 0}};
    return ok(syscall(SYS_capset, &head, sets));
}

static bool other_user(void) {
    return ok(setresuid(1, 1, 1));
}

static bool locked(void) {
    return ok(syscall(SYS_memfd_secret, 0));
}

static bool dumped(void) {
    return ok(prctl(PR_SET_DUMPABLE, 1)) && ok(syscall(SYS_swapon, word(0), 0));
}

static bool watched(void) {
    /* FAN_CLASS_NOTIF with marks of a whole mount. */
    long group = syscall(SYS_fanotify_init, 0, O_RDONLY);
    return ok(group) && ok(syscall(SYS_fanotify_mark, group, 1 | 0x10, 0x20ULL, AT_FDCWD, word(0)));
}

static bool accounted(void) {
    return ok(syscall(SYS_acct, word(0)));
}

static bool linked(void) {
    int file = open(word(0), O_PATH);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return ok(file) && ok(linkat(AT_FDCWD, name, AT_FDCWD, word(1), AT_SYMLINK_FOLLOW));
}

static bool whole_mode(void) {
    return ok(fchmod((int)number(0), 0777));
}

static bool timed(void) {
    struct timespec times[2] = {{1, 0}, {1, 0}};
    return ok(futimens((int)number(0), times));
}

static bool attributed_file(void) {
    return ok(syscall(SYS_fsetxattr, number(0), "user.planted", "x", 1UL, 0));
}

/* ---- a victim ---- */

/* The process outside: every signal waits at it, and the secret is in its memory. */
static _Noreturn void victim(void) {
    static char secret[64];
    strncpy(secret, word(1), sizeof secret - 1);
    /* The command line shows the secret, too, but not to who can't see the process. */
    memset(words[1], 'x', strlen(words[1]));
    prctl(PR_SET_NAME, word(0));
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int told = open(word(2), O_WRONLY);
    dprintf(told, "%d %p\n", (int)getpid(), (void *)secret);
    close(told);
    for (;;)
        pause();
}

static const struct {
    const char *name;
    bool (*call)(void);
} calls[] = {
    {"nothing", nothing}, {"open", opened}, {"lease", leased}, {"socket", made_socket}, {"bpf", bpf_map}, {"perf", perf_event},
    {"userfaultfd", user_fault}, {"io_uring", ring}, {"fsopen", file_system_context}, {"open_tree", tree},
    {"by_handle", by_handle}, {"unshare", unshared}, {"clone", cloned}, {"clone3", cloned3}, {"setns", entered},
    {"setns_pidfd", entered_process}, {"mount", mounted}, {"bind", bound}, {"remount", remounted}, {"move", moved},
    {"umount", unmounted}, {"mount_setattr", attributed}, {"chroot", rooted}, {"pivot_root", pivoted},
    {"ptrace", traced}, {"seize", seized}, {"read_memory", read_memory}, {"write_memory", wrote_memory},
    {"getfd", got_descriptor}, {"madvise", advised}, {"kill", killed}, {"tgkill", thread_killed}, {"sigqueue", queued},
    {"pidfd_kill", process_killed}, {"fd_kill", descriptor_killed}, {"owned_signal", owned_signal}, {"renice", renice},
    {"flood", flooded}, {"pester", pestering}, {"swap", swapping}, {"stopped", stopped}, {"traced_child", traced_child}, {"vforked", vforked},
    {"prlimit", limited}, {"affinity", scheduled}, {"migrate", moved_pages}, {"setpgid", grouped},
    {"make_shm", make_shm}, {"make_msg", make_msg}, {"make_sem", make_sem}, {"make_mq", make_mq},
    {"shm", shared_memory}, {"msg", message}, {"sem", semaphore_removed}, {"mq", queue}, {"add_key", key},
    {"request_key", key_requested}, {"clear_keyring", keyring_cleared}, {"connect", connected}, {"sendto", sent},
    {"sendmsg", message_sent}, {"sendmmsg", many_sent}, {"pass", passed}, {"tiocsti", typed}, {"tioclinux", selected},
    {"personality", foreign}, {"init_module", module}, {"syslog", kernel_log},
    {"sethostname", host_named}, {"mknod", device}, {"capset", capable}, {"setuid", other_user},
    {"memfd_secret", locked}, {"swapon", dumped}, {"fanotify", watched}, {"acct", accounted},
    {"exchange", exchanged}, {"linkat", linked}, {"fchmod", whole_mode}, {"futimens", timed},
    {"fsetxattr", attributed_file},
};

int main(int argc, char **argv) {
    words = argv + 2;
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "victim") == 0)
        victim();
    int told[2];
    if (pipe2(told, O_CLOEXEC) < 0)
        return 2;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(argv[1], calls[i].name) != 0)
            continue;
        if (fork() == 0) {
            signal(SIGHUP, SIG_IGN);
            if (!calls[i].call())
                _exit(1);
            prctl(PR_SET_NAME, getenv("NAME"));
            if (write(told[1], "x", 1) != 1)
                _exit(1);
            close(told[1]);
            for (;;)
                pause();
        }
        close(told[1]);
        char byte;
        return read(told[0], &byte, 1) == 1 ? 0 : 1;
    }
    fprintf(stderr, "probe: no %s\n", argv[1]);
    return 2;
}

/*
 * paddock-init: the first process of a sandbox, and the parent of its command.
 *
 *     paddock-init [WORD...] -- [PROGRAM [ARGUMENT...]]
 *     paddock-init [WORD...] more=FD
 *
 * It is linked statically, so that it runs in any view of the file system, and
 * it need not be part of that view: the launcher opens it and bubblewrap
 * executes the descriptor. Each word is one thing to do:
 *
 *     as=BYTES cpu=SECONDS fsize=BYTES nofile=COUNT nproc=COUNT
 *                            limits of each process; nproc is for all together
 *     cgroup=FD              a control group to enter, by its cgroup.procs, that limits the processes instead
 *     wall=SECONDS           after which everything is killed
 *     landlock=FS:NET:SCOPE  rights to take away (hexadecimal, linux/landlock.h)
 *     allow=RIGHTS:PATH      of these, what stays granted below a path
 *     seccomp=FD             a filter to load, where bubblewrap has not done it
 *     trace=FD               a socket: a second filter to load comes in, for the command alone,
 *                            and its listener goes out (seccomp_unotify(2))
 *     report=FD              a pipe for what became of the command (report.h); when nobody
 *                            can read it any more, everything is killed
 *     argv0=NAME             the name the program is told, if not PROGRAM
 *     mounted=DEV:INODE:PATH what must be mounted at a path
 *     hold=1                 before `--`, in place of a program: keep the sandbox
 *                            for others to enter, until SIGTERM
 *     more=FD                the last: what follows is in a file, each ended by NUL
 *
 * Promises
 *   - What was asked for is enforced before the program starts, or it does not
 *     start: exit status 125 and one line on standard error.
 *   - Exit status: that of the program, or 128 and the signal that ended it; 127
 *     if there is no such program, 126 if it can't be executed, 124 if the
 *     time was over.
 *   - The command has descriptors 0, 1 and 2 only, an empty signal mask and
 *     default dispositions. When it has ended, nothing that it started lives on.
 *   - A signal reaches the command once: when this process leads a group, the
 *     command leads another and is sent what arrives here; otherwise both
 *     share the group of the launcher, whose signals reach the command directly,
 *     or are sent on if it has left for a group of its own, as shells do.
 *
 * Privilege: under bubblewrap it has none left, and runs with the filter in
 * force. Without bubblewrap it has the caller's, and drops every capability
 * before anything else. It trusts its words; it does not trust the command,
 * which may signal it but, as it is not dumpable, neither reads its memory nor
 * its descriptors through /proc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "descendants.h"
#include "mounted.h"
#include "report.h"

enum { EXIT_ABANDONED = 123, EXIT_WALL = 124, EXIT_NOT_CONFINED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Since Linux 5.13 on every machine; older headers lack them. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, RULE_PATH_BENEATH = 1 };

/* The longest filter that the kernel takes. */
#define FILTER_LIMIT_BYTES (BPF_MAXINSNS * sizeof(struct sock_filter))

struct limit_name {
    const char *word;
    int resource;
};
static const struct limit_name limit_names[] = {
    {"as", RLIMIT_AS}, {"cpu", RLIMIT_CPU}, {"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},
};
enum { LIMITS = sizeof limit_names / sizeof *limit_names };

struct __attribute__((packed)) landlock_ruleset {
    uint64_t handled_fs, handled_net, scoped;
};
struct __attribute__((packed)) landlock_rule {
    uint64_t rights;
    int32_t parent;
};
/* Execute, write, read, truncate, ioctl: the kernel refuses the others for a path that is no directory. */
static const uint64_t file_rights = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;

static struct {
    uint64_t limits[LIMITS]; /* 0 for none */
    uint64_t wall_s;
    bool has_landlock;
    struct landlock_ruleset landlock;
    char **words;
    int n_words;
    int filter, trace, report, cgroup; /* descriptors, or -1 */
    char *program;
    char **argv;
} task = {.filter = -1, .trace = -1, .report = -1, .cgroup = -1};

/* ---- Telling what happened ---- */

static void report(const struct report *report) {
    if (task.report >= 0 && write(task.report, report, sizeof *report) < 0) {
        /* Nobody reads. The exit status says the most of it. */
    }
}

/* errno says why. */
static _Noreturn void refuse(const char *step, const char *value) {
    int error = errno;
    report(&(struct report){.kind = REPORT_NOT_CONFINED, .value = error});
    dprintf(2, "paddock: the command was not started, because it can't be confined: %s%s: %s\n", step, value,
            strerror(error));
    _exit(EXIT_NOT_CONFINED);
}

/* ---- Words ---- */

/* The rest of `word` after "NAME=", or NULL if it is another word. */
static char *value_of(char *word, const char *name) {
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

/* One number, ended by `stop`; moves `text` behind it. */
static uint64_t number(char **text, int base, char stop, const char *word) {
    char *end = *text;
    errno = 0;
    /* strtoull also takes white space and a sign, which make no sense here. */
    uint64_t value = **text >= '0' ? strtoull(*text, &end, base) : 0;
    if (end == *text || *end != stop || errno) {
        errno = EINVAL;
        refuse("word ", word);
    }
    *text = stop ? end + 1 : end;
    return value;
}

static void parse_landlock(char *value, const char *word) {
    task.landlock.handled_fs = number(&value, 16, ':', word);
    task.landlock.handled_net = number(&value, 16, ':', word);
    task.landlock.scoped = number(&value, 16, '\0', word);
    task.has_landlock = true;
}

static void parse_word(char *word) {
    char *value;
    for (int i = 0; i < LIMITS; i++) {
        if ((value = value_of(word, limit_names[i].word))) {
            task.limits[i] = number(&value, 10, '\0', word);
            return;
        }
    }
    if ((value = value_of(word, "wall"))) {
        task.wall_s = number(&value, 10, '\0', word);
    } else if ((value = value_of(word, "landlock"))) {
        parse_landlock(value, word);
    } else if ((value = value_of(word, "seccomp"))) {
        task.filter = (int)number(&value, 10, '\0', word);
    } else if ((value = value_of(word, "trace"))) {
        task.trace = (int)number(&value, 10, '\0', word);
    } else if ((value = value_of(word, "report"))) {
        task.report = (int)number(&value, 10, '\0', word);
    } else if ((value = value_of(word, "cgroup"))) {
        task.cgroup = (int)number(&value, 10, '\0', word);
    } else if ((value = value_of(word, "argv0"))) {
        task.argv[0] = value;
    } else if (!value_of(word, "allow") && !value_of(word, "mounted") && !value_of(word, "hold")) {
        /* The time of these comes later, or was before. */
        errno = EINVAL;
        refuse("word ", word);
    }
}

/* A file, because bubblewrap takes some thousand arguments at most. What is in it stays in memory for good. */
static char **with_more(int *argc, char **argv) {
    char *value = value_of(argv[*argc - 1], "more");
    struct stat file;
    if (!value)
        return argv;
    int fd = (int)number(&value, 10, '\0', argv[--*argc]);
    if (fstat(fd, &file) < 0)
        refuse("more", "");
    size_t size = (size_t)file.st_size, count = 0;
    char *text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED || text[size - 1] != '\0')
        refuse("more", "");
    for (size_t i = 0; i < size; i++)
        count += text[i] == '\0';
    char **all = calloc((size_t)*argc + count + 1, sizeof *all);
    if (!all)
        refuse("more", "");
    memcpy(all, argv, (size_t)*argc * sizeof *all);
    for (char *word = text; word < text + size; word += strlen(word) + 1)
        all[(*argc)++] = word;
    return all;
}

static void parse(int argc, char **argv) {
    int end = 1;
    argv = with_more(&argc, argv);
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    bool holds = end > 1 && strcmp(argv[end - 1], "hold=1") == 0;
    if (end + !holds >= argc) {
        errno = EINVAL;
        refuse("no command after ", "--");
    }
    task.words = argv + 1;
    task.n_words = end - 1;
    task.argv = argv + end + 1;
    task.program = task.argv[0];
    for (int i = 0; i < task.n_words; i++)
        parse_word(task.words[i]);
}

/* ---- Confinement, in order ---- */

/* Ours alone: the command must not write reports, nor keep what the launcher left open. */
static void keep_descriptors(void) {
    if (task.report >= 0 && fcntl(task.report, F_SETFD, FD_CLOEXEC) < 0)
        refuse("report", "");
    /* A kernel without it (before 5.11) leaves what the launcher opened without close-on-exec. */
    if (syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) < 0)
        for (int fd = 3, limit = (int)sysconf(_SC_OPEN_MAX); fd < limit; fd++)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Another command in the same tree can exchange directories for links while bubblewrap mounts them, and have
 * it show what the profile does not grant. Each such mount is of another file, and there are as many as
 * were asked for; so if each is there, none shows anything else. */
static void verify_mounts(void) {
    for (int i = 0; i < task.n_words; i++) {
        char *value = value_of(task.words[i], "mounted");
        if (!value)
            continue;
        uint64_t device = number(&value, 10, ':', task.words[i]);
        uint64_t inode = number(&value, 10, ':', task.words[i]);
        if (!is_mounted(device, inode, value)) {
            errno = ESTALE;
            refuse("it was exchanged meanwhile: ", value);
        }
    }
}

/* Root without a user namespace of its own has capabilities, and would get them back in execve. */
static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        refuse("capget", "");
    if (!(data[0].permitted | data[1].permitted))
        return;
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        prctl(PR_CAPBSET_DROP, capability);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    memset(data, 0, sizeof data);
    if (syscall(SYS_capset, &header, data) < 0)
        refuse("capset", "");
}

static void allow(int ruleset, char *value, const char *word) {
    struct landlock_rule rule = {.rights = number(&value, 16, ':', word)};
    struct stat file;
    rule.parent = open(value, O_PATH | O_CLOEXEC);
    /* What can't be reached needs no grant. */
    if (rule.parent < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
        return;
    if (rule.parent < 0 || fstat(rule.parent, &file) < 0)
        refuse("Landlock: ", value);
    if (!S_ISDIR(file.st_mode))
        rule.rights &= file_rights;
    rule.rights &= task.landlock.handled_fs;
    if (rule.rights && syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0u) < 0)
        refuse("Landlock: ", value);
    close(rule.parent);
}

static void restrict_files(void) {
    if (!task.has_landlock)
        return;
    /* A kernel that does not know the last fields takes them as long as they are zero. */
    int ruleset = (int)syscall(CREATE_RULESET, &task.landlock, sizeof task.landlock, 0u);
    if (ruleset < 0)
        refuse("Landlock", "");
    for (int i = 0; i < task.n_words; i++) {
        char *value = value_of(task.words[i], "allow");
        if (value)
            allow(ruleset, value, task.words[i]);
    }
    if (syscall(RESTRICT_SELF, ruleset, 0u) < 0)
        refuse("Landlock", "");
    close(ruleset);
}

static void load_filter(void) {
    static struct sock_filter code[BPF_MAXINSNS];
    if (task.filter < 0)
        return;
    ssize_t n = pread(task.filter, code, FILTER_LIMIT_BYTES, 0);
    struct sock_fprog program = {.len = (unsigned short)(n / (ssize_t)sizeof *code), .filter = code};
    if (n < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        refuse("seccomp", "");
}

/* Whoever opened the descriptor had the right to it, which is what the kernel looks at (Linux 5.16, or a fix). */
static void enter_cgroup(void) {
    if (task.cgroup >= 0 && write(task.cgroup, "0", 1) != 1)
        refuse("control group", "");
}

static void confine(void) {
    enter_cgroup();
    keep_descriptors();
    verify_mounts();
    drop_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        refuse("no_new_privs", "");
    restrict_files();
    load_filter();
    /* Until the program is executed: its memory is its own. */
    prctl(PR_SET_DUMPABLE, 0);
}

/* ---- The command ---- */

static void set_limit(int i) {
    int resource = limit_names[i].resource;
    struct rlimit now, wanted = {task.limits[i], task.limits[i]};
    if (!task.limits[i])
        return;
    /* The kernel counts this process too. */
    if (resource == RLIMIT_NPROC)
        wanted.rlim_cur = ++wanted.rlim_max;
    /* SIGXCPU at the limit, which says why; SIGKILL a second later for those that catch it. */
    if (resource == RLIMIT_CPU)
        wanted.rlim_max++;
    if (getrlimit(resource, &now) < 0)
        refuse("limit ", limit_names[i].word);
    /* A stricter one that is in force already stays, and can't be raised anyway. */
    if (wanted.rlim_max > now.rlim_max)
        wanted.rlim_max = now.rlim_max;
    if (wanted.rlim_cur > wanted.rlim_max)
        wanted.rlim_cur = wanted.rlim_max;
    if (setrlimit(resource, &wanted) < 0)
        refuse("limit ", limit_names[i].word);
}

/* Only for the command: a limit on this process might keep it from its work. */
static void limit_self(void) {
    for (int i = 0; i < LIMITS; i++)
        set_limit(i);
}

/* Whoever holds the listener is asked about each call that the filter names. That must be the receiver alone: a
 * copy that is left here would keep the kernel waiting for an answer when the receiver is gone. */
static bool send_listener(int listener) {
    char nothing = 0, room[CMSG_SPACE(sizeof listener)] __attribute__((aligned(8))) = {0};
    struct iovec part = {.iov_base = &nothing, .iov_len = sizeof nothing};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof listener);
    memcpy(CMSG_DATA(header), &listener, sizeof listener);
    bool is_sent = sendmsg(task.trace, &message, MSG_NOSIGNAL) >= 0;
    close(listener);
    return is_sent;
}

/* Only for the command, in its last moment before the program: this process asks nobody. */
static void trace_self(void) {
    static struct sock_filter code[BPF_MAXINSNS];
    if (task.trace < 0)
        return;
    struct sock_fprog program = {.filter = code};
    ssize_t n = recv(task.trace, code, sizeof code, 0);
    program.len = (unsigned short)(n / (ssize_t)sizeof *code);
    if (n == 0)
        errno = EPIPE;
    /* Without the second flag (before Linux 5.19) any signal interrupts the wait, and the question is repeated. */
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | 1u << 5 /* WAIT_KILLABLE_RECV */;
    int listener = n > 0 ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) : -1;
    if (listener < 0 && errno == EINVAL)
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0 || !send_listener(listener))
        refuse("trace", "");
}

static _Noreturn void run(bool leads_group) {
    if (leads_group) {
        /* Signals are blocked still, so taking the terminal does not stop us (SIGTTOU). */
        bool has_terminal = tcgetpgrp(0) == getpgrp();
        setpgid(0, 0);
        if (has_terminal)
            tcsetpgrp(0, getpid());
    }
    default_signals();
    /* Before the limits, of which the one on descriptors might leave no room for the listener. */
    trace_self();
    limit_self();
    /* Whoever has read this may send signals: they wait until the next step. */
    report(&(struct report){.kind = REPORT_CONFINED});
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const char *path = getenv("PATH");
    int error = exec_program(task.program, path ? path : DEFAULT_PATH, task.argv, environ);
    report(&(struct report){.kind = REPORT_NOT_EXECUTED, .value = error});
    dprintf(2, "paddock: can't run %s: %s\n", task.program, strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* ---- Watching over it ---- */

/* Ends this process and all below it: the kernel does so when pid 1 of a namespace ends. */
static _Noreturn void finish(int status) {
    /* Elsewhere it takes a search of /proc, unless no child is left: then no descendant is either. */
    if (getpid() != 1 && waitpid(-1, NULL, WNOHANG) >= 0)
        kill_descendants();
    _exit(status);
}

/* Whether there are as many processes as may be. The kernel keeps no record of those it has refused. */
static bool is_full(void) {
    bool is_limited = task.cgroup >= 0;
    for (int i = 0; i < LIMITS; i++) {
        if (limit_names[i].resource == RLIMIT_NPROC && task.limits[i]) {
            set_limit(i);
            is_limited = true;
        }
    }
    pid_t another = is_limited ? fork() : 0;
    if (is_limited && another == 0)
        _exit(0);
    return another < 0 && errno == EAGAIN;
}

/* While the command that has failed is not waited for, it still counts. */
static void report_process_limit(pid_t command) {
    siginfo_t end = {0};
    if (waitid(P_PID, (id_t)command, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == command &&
        (end.si_code != CLD_EXITED || end.si_status != 0) && is_full())
        report(&(struct report){.kind = REPORT_PROCESS_LIMIT});
}

/* Reaps all that ended; returns when the command itself has not. */
static void reap(pid_t command) {
    int status;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        if (pid != command)
            continue;
        report(&(struct report){
            .kind = REPORT_EXITED, .value = status,
            .user_us = microseconds(usage.ru_utime), .system_us = microseconds(usage.ru_stime),
            .max_rss_kib = (uint64_t)usage.ru_maxrss,
        });
        finish(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

static void serve_signals(int signals, pid_t command) {
    struct signalfd_siginfo arrived;
    while (read(signals, &arrived, sizeof arrived) == (ssize_t)sizeof arrived) {
        if (!task.program && arrived.ssi_signo == SIGTERM)
            finish(0);
        /* In a pid namespace a group from outside is 0. */
        pid_t group = getpgid(command);
        if (arrived.ssi_signo != SIGCHLD && group > 0 && group != getpgrp())
            kill(-group, (int)arrived.ssi_signo);
    }
    report_process_limit(command);
    reap(command);
}

/* A descriptor that becomes readable when the time is over, or -1. */
static int start_clock(void) {
    if (!task.wall_s)
        return -1;
    struct itimerspec when = {.it_value.tv_sec = (time_t)task.wall_s};
    int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (clock < 0 || timerfd_settime(clock, 0, &when, NULL) < 0)
        refuse("time limit", "");
    return clock;
}

int main(int argc, char **argv) {
    parse(argc, argv);
    prctl(PR_SET_NAME, "paddock-init");
    /* Not earlier, as an option of bubblewrap: killed while its child waits for it, it would leave that behind. */
    if (getpid() == 1 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        refuse("parent", "");
    confine();
    /* Where there is no pid namespace, orphans come here all the same. */
    if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        refuse("subreaper", "");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        refuse("signalfd", "");
    int clock = start_clock();
    /* The launcher, or bubblewrap and then the launcher has closed its end, may have died before all this. */
    struct pollfd launcher = {.fd = task.report};
    if (poll(&launcher, 1, 0) > 0)
        _exit(EXIT_ABANDONED);
    bool leads_group = getpgrp() == getpid();
    pid_t command = task.program ? fork() : -1;
    if (task.program && command < 0)
        refuse("fork", "");
    if (command == 0)
        run(leads_group);
    /* Both sides do it, so that no signal is sent to a group that is not there yet. */
    if (leads_group && command > 0)
        setpgid(command, command);
    if (!task.program)
        report(&(struct report){.kind = REPORT_CONFINED});
    struct pollfd events[] = {
        {.fd = signals, .events = POLLIN}, {.fd = clock, .events = POLLIN}, {.fd = task.report}};
    for (;;) {
        if (poll(events, 3, -1) < 0 && errno != EINTR)
            refuse("poll", "");
        if (events[2].revents)
            finish(EXIT_ABANDONED);
        if (events[0].revents)
            serve_signals(signals, command);
        if (events[1].revents) {
            report(&(struct report){.kind = REPORT_WALL_LIMIT});
            dprintf(2, "paddock: the command was killed, because it took longer than %llu s\n",
                    (unsigned long long)task.wall_s);
            finish(EXIT_WALL);
        }
    }
}

// A program in tshark's place that does what a dissector in an attacker's hand would try. It prints the name of each
// attempt that succeeds on standard error, a line each, then `tried`, and ends with status 2 as for a file that tshark
// does not understand. tests/unit/test_confinement.py compiles it with the names of what it must not reach.
//
//   SECRET   what stands in the environment of the processes around it
//   GUARDED  a folder with the files `object` and `socket`, which a Unix socket listens on
//   PORT     of TCP on 127.0.0.1, which a socket listens on

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char *attempt, bool succeeded)
{
	if (succeeded) {
		fprintf(stderr, "%s\n", attempt);
	}
}

static bool contains(const char *path, const char *text)
{
	static char content[1 << 20];
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, content, sizeof content);
	if (file >= 0) {
		close(file);
	}
	return length > 0 && memmem(content, (size_t)length, text, strlen(text)) != NULL;
}

static bool an_environment_has_the_secret(void)
{
	char path[300];
	snprintf(path, sizeof path, "/proc/%d/environ", getppid());
	bool found = contains(path, SECRET);
	DIR *processes = opendir("/proc");
	for (struct dirent *entry; processes && (entry = readdir(processes)) != NULL;) {
		snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
		found = found || contains(path, SECRET);
	}
	return found;
}

static bool opened(const char *path, int flags)
{
	int file = open(path, flags, 0600);
	if (file >= 0) {
		close(file);
	}
	return file >= 0;
}

static bool listed(const char *path)
{
	DIR *folder = opendir(path);
	return folder && readdir(folder) != NULL;
}

static bool connected(const struct sockaddr *address, socklen_t length)
{
	int handle = socket(address->sa_family, SOCK_STREAM, 0);
	bool done = handle >= 0 && connect(handle, address, length) == 0;
	if (handle >= 0) {
		close(handle);
	}
	return done;
}

static void files(void)
{
	report("environment", an_environment_has_the_secret());
	report("read", opened(GUARDED "/object", O_RDONLY));
	report("read-/etc/passwd", opened("/etc/passwd", O_RDONLY));
	report("list", listed(GUARDED));
	report("overwrite", opened(GUARDED "/object", O_WRONLY));
	report("create", opened(GUARDED "/created", O_WRONLY | O_CREAT));
	report("create-in-/tmp", opened("/tmp", O_WRONLY | O_TMPFILE));
	report("create-in-/dev/shm", opened("/dev/shm", O_WRONLY | O_TMPFILE));
	report("create-here", opened(".", O_WRONLY | O_TMPFILE));
	report("mkdir", mkdir(GUARDED "/folder", 0700) == 0);
	report("symlink", symlink("object", GUARDED "/link") == 0);
	report("mkfifo", mkfifo(GUARDED "/fifo", 0600) == 0);
	report("rename", rename(GUARDED "/object", GUARDED "/renamed") == 0 && rename(GUARDED "/renamed", GUARDED "/object") == 0);
	report("chmod", chmod(GUARDED "/object", 0600) == 0);
	report("set-times", utimensat(AT_FDCWD, GUARDED "/object", NULL, 0) == 0);
	report("truncate", truncate(GUARDED "/object", 1) == 0);
	report("truncate-on-opening", opened(GUARDED "/object", O_RDONLY | O_TRUNC));
	report("reach-the-kernel-with-O_TRUNC", syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY | O_TRUNC) >= 0 || errno != ENOSYS);
#ifdef SYS_open
	report("reach-the-kernel-with-O_TRUNC-otherwise", syscall(SYS_open, NULL, O_RDONLY | O_TRUNC) >= 0 || errno != ENOSYS);
#endif
	report("write-to-the-capture", write(STDIN_FILENO, "x", 1) == 1);
	char name[40];
	for (int handle = 3; handle < 1024; handle++) {
		snprintf(name, sizeof name, "descriptor-%d", handle);
		report(name, fcntl(handle, F_GETFD) >= 0);
	}
}

static void network(void)
{
	struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	report("connect-TCP", connected((struct sockaddr *)&tcp, sizeof tcp));
	struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = GUARDED "/socket"};
	report("connect-Unix", connected((struct sockaddr *)&local, sizeof local));
	int pair[2];
	report("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
}

static void processes(void)
{
	pid_t parent = getppid();
	siginfo_t information = {.si_code = SI_QUEUE};
	report("signal-the-parent", parent > 0 && kill(parent, 0) == 0);
	report("signal-all", kill(-1, 0) == 0);
	report("signal-the-group", kill(0, 0) == 0);
	report("signal-a-thread", parent > 0 && syscall(SYS_tgkill, parent, parent, 0) == 0);
	report("signal-any-thread", syscall(SYS_tkill, gettid(), 0) == 0);
	report("queue-a-signal", syscall(SYS_rt_sigqueueinfo, parent > 0 ? parent : getpid(), 0, &information) == 0);
	report("have-a-signal-sent", fcntl(STDERR_FILENO, F_SETOWN, parent > 0 ? parent : getpid()) == 0);
	report("limit-the-parent", parent > 0 && syscall(SYS_prlimit64, parent, 7, NULL, &information) == 0);
	pid_t child = fork();
	if (child == 0) {
		_exit(0);
	}
	report("fork", child > 0);
	child = vfork();
	if (child == 0) {
		_exit(0);
	}
	report("vfork", child > 0);
	while (wait(NULL) > 0) {
	}
}

static void calls(void)
{
	static const struct {
		const char *name;
		long number;
	} call[] = {
	    {"ptrace", SYS_ptrace},
	    {"process_vm_readv", SYS_process_vm_readv},
	    {"process_vm_writev", SYS_process_vm_writev},
	    {"kcmp", SYS_kcmp},
	    {"pidfd_open", SYS_pidfd_open},
	    {"pidfd_getfd", SYS_pidfd_getfd},
	    {"pidfd_send_signal", SYS_pidfd_send_signal},
	    {"bpf", SYS_bpf},
	    {"perf_event_open", SYS_perf_event_open},
	    {"userfaultfd", SYS_userfaultfd},
	    {"io_uring_setup", SYS_io_uring_setup},
	    {"keyctl", SYS_keyctl},
	    {"add_key", SYS_add_key},
	    {"mount", SYS_mount},
	    {"umount2", SYS_umount2},
	    {"open_tree", SYS_open_tree},
	    {"pivot_root", SYS_pivot_root},
	    {"chroot", SYS_chroot},
	    {"unshare", SYS_unshare},
	    {"setns", SYS_setns},
	    {"clone3", SYS_clone3},
	    {"execveat", SYS_execveat},
	    {"openat2", SYS_openat2},
	    {"open_by_handle_at", SYS_open_by_handle_at},
	    {"memfd_create", SYS_memfd_create},
	    {"shmget", SYS_shmget},
	    {"mq_open", SYS_mq_open},
	    {"setpriority", SYS_setpriority},
	    {"sched_setaffinity", SYS_sched_setaffinity},
	    {"finit_module", SYS_finit_module},
	    {"kexec_load", SYS_kexec_load},
	    {"capset", SYS_capset},
	    {"setuid", SYS_setuid},
	};
	for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
		errno = 0;
		bool reached = syscall(call[i].number, -1, -1, -1, -1, -1, -1) >= 0 || errno != ENOSYS;
		report(call[i].name, reached);
	}
}

static void *waiting(void *unused)
{
	pause();
	return unused;
}

static void threads(void)
{
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 15);
	int started = 0;
	for (pthread_t thread; started < 200 && pthread_create(&thread, &small, waiting, NULL) == 0;) {
		started++;
	}
	report("threads", started == 200);
}

int main(int count, char **words)
{
	if (count > 1 && strcmp(words[1], "--version") == 0) {
		puts("TShark (Wireshark) 4.0.17");
		return 0;
	}
	files();
	network();
	processes();
	calls();
	threads();
	fputs("tried\n", stderr);
	execl("/bin/sh", "sh", "-c", "echo execute >&2; exit 2", NULL);
	return 2;
}

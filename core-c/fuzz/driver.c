/* Runs a target on files, and on the files of folders, without a fuzzer, as a regression test. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	if (!f || fstat(fileno(f), &st))
		return 0;
	/* A buffer of the exact length, so that the sanitizer sees a read beyond it. */
	size_t size = (size_t)st.st_size;
	uint8_t *bytes = malloc(size ? size : 1);
	int good = bytes && fread(bytes, 1, size, f) == size;
	fclose(f);
	if (good) {
		fprintf(stderr, "%s\n", path);
		LLVMFuzzerTestOneInput(bytes, size);
	}
	free(bytes);
	return good;
}

/* How many files were run; negative: one could not be read. */
static int run(const char *path)
{
	DIR *folder = opendir(path);
	if (!folder)
		return run_file(path) ? 1 : -1;
	int ran = 0;
	for (struct dirent *entry; ran >= 0 && (entry = readdir(folder));) {
		char name[PATH_MAX];
		snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			ran = run_file(name) ? ran + 1 : -1;
	}
	closedir(folder);
	return ran;
}

int main(int count, char **paths)
{
	for (int i = 1; i < count; i++) {
		int ran = run(paths[i]);
		if (ran <= 0) {
			fprintf(stderr, "%s: %s\n", paths[i], ran ? "cannot be read" : "no input");
			return 1;
		}
	}
	return count < 2;
}

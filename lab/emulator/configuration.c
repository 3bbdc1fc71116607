#include "configuration.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_ROOM = 4096, WORDS_MAX = 64 };

/* The type of a key's value, and where the value is stored. */
enum kind { UNSIGNED, TIME, BIT, SHIFT, PACKETS, NAME, DISCIPLINE, TRAFFIC };

struct key {
	const char *name;
	enum kind kind;
	void *value;
	uint8_t *given; /* null: not needed */
};

struct line {
	char *word[WORDS_MAX]; /* word[0] is the kind of the line */
	uint32_t words, number;
};

static int refuse(const struct line *line, const char *reason, const char *what)
{
	fprintf(stderr, "rewindow-emulator: line %u: %s%s%s\n", line->number, reason, *what ? ": " : "", what);
	return 1;
}

static int read_number(const char *text, uint64_t most, uint64_t *value)
{
	char *end;
	errno = 0;
	if (!isdigit((unsigned char)*text))
		return 1;
	*value = strtoull(text, &end, 10);
	return *end || errno || *value > most;
}

static int read_word(const char *text, const char *const *words, int *value)
{
	for (*value = 0; words[*value]; ++*value)
		if (strcmp(text, words[*value]) == 0)
			return 0;
	return 1;
}

static int is_name(const char *text)
{
	size_t n = strlen(text);
	return n > 0 && n < NAME_ROOM &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123"
			    "456789._-") == n;
}

static int read_value(const struct key *key, const char *text)
{
	static const char *const disciplines[] = {"drop_tail", "ecn_threshold", "red", "codel", NULL};
	static const char *const traffics[] = {"constant", "on_off", NULL};
	static const uint64_t most[] = {
	    [UNSIGNED] = UINT64_MAX >> 1, [TIME] = UINT64_C(1) << 50, [BIT] = 1, [SHIFT] = 31, [PACKETS] = 1 << 20};
	uint64_t number = 0;
	switch (key->kind) {
	case NAME:
		*(const char **)key->value = text;
		return !is_name(text);
	case DISCIPLINE:
		return read_word(text, disciplines, key->value);
	case TRAFFIC:
		return read_word(text, traffics, key->value);
	default:
		if (read_number(text, most[key->kind], &number))
			return 1;
	}
	if (key->kind == BIT || key->kind == SHIFT)
		*(uint8_t *)key->value = (uint8_t)number;
	else if (key->kind == PACKETS)
		*(uint32_t *)key->value = (uint32_t)number;
	else
		*(uint64_t *)key->value = number;
	return 0;
}

/* Reads a line whose every word must be one of these keys. */
static int read_keys(const struct line *line, const struct key *keys)
{
	for (uint32_t i = 1; i < line->words; i++) {
		char *value = strchr(line->word[i], '=');
		if (!value)
			return refuse(line, "key=value is expected", line->word[i]);
		*value++ = 0;
		const struct key *key = keys;
		while (key->name && strcmp(key->name, line->word[i]) != 0)
			key++;
		if (!key->name)
			return refuse(line, "unknown key", line->word[i]);
		if (read_value(key, value))
			return refuse(line, "bad value", value);
		if (key->given)
			*key->given = 1;
	}
	return 0;
}

static int find_link(const struct configuration *c, const char *name, uint32_t *link)
{
	for (*link = 0; *link < c->links; ++*link)
		if (strcmp(c->link_name[*link], name) == 0)
			return 0;
	return 1;
}

static int read_link(struct configuration *c, const struct line *line)
{
	struct rw_link_settings s = {.queue.codel = {5000000, 100000000}};
	struct rw_queue_settings *q = &s.queue;
	const char *name = "";
	uint64_t red_max_p_q32 = 0;
	int discipline = RW_DROP_TAIL;
	const struct key keys[] = {{"name", NAME, &name},
				   {"rate_bps", UNSIGNED, &s.rate_bps},
				   {"delay_ns", TIME, &s.delay_ns},
				   {"jitter_ns", TIME, &s.jitter_ns},
				   {"limit_packets", PACKETS, &q->limit_packets},
				   {"limit_bytes", UNSIGNED, &q->limit_bytes},
				   {"discipline", DISCIPLINE, &discipline},
				   {"ecn", BIT, &q->ecn},
				   {"ecn_threshold_packets", PACKETS, &q->threshold_packets},
				   {"red_min_packets", PACKETS, &q->red.min_packets},
				   {"red_max_packets", PACKETS, &q->red.max_packets},
				   {"red_max_p_q32", UNSIGNED, &red_max_p_q32},
				   {"red_weight_shift", SHIFT, &q->red.weight_shift},
				   {"red_gentle", BIT, &q->red.gentle},
				   {"codel_target_ns", TIME, &q->codel.target_ns},
				   {"codel_interval_ns", TIME, &q->codel.interval_ns},
				   {"loss_q32", UNSIGNED, &s.loss_q32},
				   {"ge_good_to_bad_q32", UNSIGNED, &s.burst.good_to_bad_q32},
				   {"ge_bad_to_good_q32", UNSIGNED, &s.burst.bad_to_good_q32},
				   {"ge_loss_good_q32", UNSIGNED, &s.burst.loss_good_q32},
				   {"ge_loss_bad_q32", UNSIGNED, &s.burst.loss_bad_q32},
				   {"reorder_q32", UNSIGNED, &s.reorder_q32},
				   {"reorder_ns", TIME, &s.reorder_ns},
				   {0}};
	uint32_t same;
	if (read_keys(line, keys))
		return 1;
	if (!*name || find_link(c, name, &same) == 0)
		return refuse(line, "a link needs a name of its own", name);
	q->discipline = (enum rw_discipline)discipline;
	if (q->discipline == RW_RED &&
	    (!q->red.min_packets || q->red.min_packets >= q->red.max_packets || red_max_p_q32 > UINT32_MAX))
		return refuse(line, "RED needs 0 < red_min_packets < red_max_packets, and red_max_p_q32 below 2^32",
			      "");
	if (q->discipline == RW_CODEL && !q->codel.interval_ns)
		return refuse(line, "CoDel needs an interval", "");
	q->red.max_probability_q32 = (uint32_t)red_max_p_q32;
	char (*grown)[NAME_ROOM] = realloc(c->link_name, (c->links + 1) * sizeof *grown);
	if (!grown)
		return refuse(line, "out of memory", "");
	c->link_name = grown;
	if (rw_network_add_link(c->network, &s) < 0)
		return refuse(line, "too many links, or out of memory", "");
	strcpy(c->link_name[c->links++], name);
	return 0;
}

static int read_change(struct configuration *c, const struct line *line)
{
	struct rw_link_change change = {0};
	const char *name = "";
	uint8_t has_time = 0;
	const struct key keys[] = {{"link", NAME, &name},
				   {"at_ns", TIME, &change.at_ns, &has_time},
				   {"rate_bps", UNSIGNED, &change.rate_bps, &change.has_rate},
				   {"delay_ns", TIME, &change.delay_ns, &change.has_delay},
				   {"loss_q32", UNSIGNED, &change.loss_q32, &change.has_loss},
				   {"down", BIT, &change.down, &change.has_down},
				   {0}};
	uint32_t link;
	if (read_keys(line, keys))
		return 1;
	if (find_link(c, name, &link) || !has_time)
		return refuse(line, "a change needs a link and at_ns", name);
	if (rw_network_add_change(c->network, link, &change))
		return refuse(line, "a link's changes are in order of time", name);
	return 0;
}

static int read_traffic(struct configuration *c, const struct line *line)
{
	struct rw_source_settings s = {0};
	const char *name = "";
	int kind = 0;
	const struct key keys[] = {{"link", NAME, &name},
				   {"kind", TRAFFIC, &kind},
				   {"rate_bps", UNSIGNED, &s.rate_bps},
				   {"packet_bytes", PACKETS, &s.packet_bytes},
				   {"from_ns", TIME, &s.from_ns},
				   {"to_ns", TIME, &s.to_ns},
				   {"on_ns", TIME, &s.on_ns},
				   {"off_ns", TIME, &s.off_ns},
				   {0}};
	uint32_t link;
	if (read_keys(line, keys))
		return 1;
	if (find_link(c, name, &link) || !s.rate_bps || !s.packet_bytes)
		return refuse(line, "traffic needs a link, rate_bps and packet_bytes", name);
	if ((kind == 1) != (s.on_ns && s.off_ns))
		return refuse(line, "on_off, and nothing else, has on_ns and off_ns", name);
	if (rw_network_add_source(c->network, link, &s) < 0)
		return refuse(line, "too much traffic, or out of memory", name);
	return 0;
}

/* The value of a key that is neither a number nor a name. Null: the line does not have the key. */
static char *value_of(const struct line *line, const char *key)
{
	size_t n = strlen(key);
	for (uint32_t i = 1; i < line->words; i++)
		if (strncmp(line->word[i], key, n) == 0 && line->word[i][n] == '=')
			return line->word[i] + n + 1;
	return NULL;
}

/* The family, or 0: no address. */
static uint8_t read_address(const char *text, uint8_t address[ADDRESS_BYTES])
{
	memset(address, 0, ADDRESS_BYTES);
	if (!text)
		return 0;
	if (inet_pton(AF_INET, text, address) == 1)
		return 4;
	return inet_pton(AF_INET6, text, address) == 1 ? 6 : 0;
}

static int read_interface(struct configuration *c, const struct line *line)
{
	const char *name = value_of(line, "name"), *address = value_of(line, "address");
	if (line->words != 3 || !name || strlen(name) >= IFNAMSIZ || !is_name(name))
		return refuse(line, "an interface has a name of at most 15 letters, and an address", "");
	if (c->interfaces == INTERFACES_MAX)
		return refuse(line, "too many interfaces", name);
	struct interface *i = &c->interface[c->interfaces];
	i->family = read_address(address, i->address);
	if (!i->family)
		return refuse(line, "not an address", address ? address : "");
	strcpy(i->name, name);
	c->interfaces++;
	return 0;
}

static int read_route_links(struct configuration *c, const struct line *line, char *links, uint32_t *link,
			    uint32_t *count)
{
	char *rest = NULL;
	for (char *name = strtok_r(links, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (*count == RW_ROUTE_LINKS_MAX)
			return refuse(line, "a route has too many links", name);
		if (find_link(c, name, &link[(*count)++]))
			return refuse(line, "no such link", name);
	}
	return 0;
}

static int read_route(struct configuration *c, const struct line *line)
{
	struct route_between r = {0};
	char *from = value_of(line, "from"), *to = value_of(line, "to"), *links = value_of(line, "links");
	uint32_t link[RW_ROUTE_LINKS_MAX], count = 0;
	uint8_t family = read_address(from, r.ends);
	if (line->words != 4 || !family || read_address(to, r.ends + ADDRESS_BYTES) != family || !links)
		return refuse(line, "a route has two addresses of one family, and links", "");
	if (read_route_links(c, line, links, link, &count))
		return 1;
	while (r.interface < c->interfaces &&
	       memcmp(c->interface[r.interface].address, r.ends + ADDRESS_BYTES, ADDRESS_BYTES) != 0)
		r.interface++;
	if (r.interface == c->interfaces)
		return refuse(line, "no interface has this address", to);
	int route = rw_network_add_route(c->network, link, count);
	struct route_between *grown = realloc(c->route, (c->routes + 1) * sizeof *grown);
	if (grown)
		c->route = grown;
	if (route < 0 || !grown)
		return refuse(line, "a route without links, too many routes, or out of memory", "");
	r.route = (uint16_t)route;
	c->route[c->routes++] = r;
	return 0;
}

static int by_ends(const void *a, const void *b)
{
	return memcmp(((const struct route_between *)a)->ends, ((const struct route_between *)b)->ends,
		      2 * ADDRESS_BYTES);
}

const struct route_between *configuration_route(const struct configuration *c, const uint8_t ends[2 * ADDRESS_BYTES])
{
	struct route_between wanted;
	memcpy(wanted.ends, ends, sizeof wanted.ends);
	return c->routes ? bsearch(&wanted, c->route, c->routes, sizeof wanted, by_ends) : NULL;
}

static int read_seed(const struct line *line, uint64_t *seed)
{
	const struct key keys[] = {{"value", UNSIGNED, seed}, {0}};
	return read_keys(line, keys);
}

static int read_line(struct configuration *c, const struct line *line)
{
	static const struct {
		const char *word;
		int (*read)(struct configuration *, const struct line *);
	} readers[] = {{"link", read_link},
		       {"change", read_change},
		       {"traffic", read_traffic},
		       {"interface", read_interface},
		       {"route", read_route}};
	uint64_t seed = 0;
	if (strcmp(line->word[0], "seed") == 0) {
		if (c->network)
			return refuse(line, "the seed comes first, once", "");
		return read_seed(line, &seed) || !(c->network = rw_network_open(seed));
	}
	if (!c->network && !(c->network = rw_network_open(0)))
		return refuse(line, "out of memory", "");
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (strcmp(line->word[0], readers[i].word) == 0)
			return readers[i].read(c, line);
	return refuse(line, "unknown word", line->word[0]);
}

int configuration_read(struct configuration *c, FILE *in)
{
	char text[LINE_ROOM];
	struct line line = {.number = 0};
	memset(c, 0, sizeof *c);
	while (fgets(text, sizeof text, in)) {
		char *rest = NULL;
		line.number++;
		line.words = 0;
		if (!strchr(text, '\n'))
			return refuse(&line, "a line is too long, or not whole", "");
		for (char *word = strtok_r(text, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
			if (line.words == WORDS_MAX)
				return refuse(&line, "too many words", "");
			line.word[line.words++] = word;
		}
		if (!line.words)
			continue;
		if (strcmp(line.word[0], "go") == 0) {
			if (c->routes)
				qsort(c->route, c->routes, sizeof *c->route, by_ends);
			return c->routes ? 0 : refuse(&line, "there is no route", "");
		}
		if (read_line(c, &line))
			return 1;
	}
	return refuse(&line, "the input ends before `go`", "");
}

void configuration_close(struct configuration *c)
{
	rw_network_close(c->network);
	free(c->link_name);
	free(c->route);
	memset(c, 0, sizeof *c);
}

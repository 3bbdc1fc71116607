/* Algorithms and their options by name. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "rw_scheduler.h"
#include "shadow.h"

const struct rw_control *rw_control_find(const char *name)
{
	for (int i = 0; rw_control_list[i]; i++)
		if (strcmp(rw_control_list[i]->name, name) == 0)
			return rw_control_list[i];
	return NULL;
}

rw_status rw_unknown_control(const char *name, rw_error *error)
{
	rw_error_set(error, RW_ERROR_UNKNOWN_ALGORITHM, 0, 0, 0, "unknown algorithm '%.60s'", name);
	for (uint32_t i = 0; rw_control_list[i]; i++)
		rw_error_add_name(error, i, rw_control_list[i]->name);
	return RW_ERROR_UNKNOWN_ALGORITHM;
}

/* Options of the shadow. They follow the controller's own options. */
static const struct rw_option shadow_options[] = {
    {"gate", "auto|own|observed", 0,
     "when a window may grow. own: when this window limited the flight; observed: when neither application nor receiver "
     "limited the recorded sender; auto: own with mode=kernel, observed with mode=paper",
     RW_OPTION_CHOICE, 0, 0},
    {"losses", "recorded|reached", 0,
     "which recorded losses and marks reduce the window. recorded: all; reached: those at a flight that this window "
     "reached, too",
     RW_OPTION_CHOICE, 0, 0},
    {"detector", "none|sbcc|dwc|sbd", 0,
     "the detector that finds which subflows share a bottleneck; none: there are no sets", RW_OPTION_CHOICE, 0, 0},
    {0}};
enum { SHADOW_GATE, SHADOW_LOSSES, SHADOW_DETECTOR, SHADOW_OPTIONS };

/* A controller that does not use sets lacks the last option, the choice of a detector. */
static uint32_t shadow_option_count(const struct rw_control *control)
{
	return control->detector ? SHADOW_OPTIONS : SHADOW_DETECTOR;
}

/* The index of value in "a|b|c"; -1: not there. */
static int choice_index(const char *values, const char *value, size_t n)
{
	for (int i = 0;; i++) {
		const char *bar = strchr(values, '|');
		size_t length = bar ? (size_t)(bar - values) : strlen(values);
		if (length == n && memcmp(values, value, n) == 0)
			return i;
		if (!bar)
			return -1;
		values = bar + 1;
	}
}

/* A decimal number as Q16, without floating point. 0: not a number, or out of range. */
static int read_q16(const char *text, int64_t low, int64_t high, int64_t *value)
{
	uint64_t whole = 0, fraction = 0, scale = 1;
	int negative = *text == '-';
	const char *p = text += negative;
	for (; *p >= '0' && *p <= '9'; p++) {
		whole = whole * 10 + (uint64_t)(*p - '0');
		if (whole > (uint64_t)1 << 40)
			return 0;
	}
	int digits = p > text;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++) {
			digits = 1;
			if (scale < 100000000000000ull) {
				fraction = fraction * 10 + (uint64_t)(*p - '0');
				scale *= 10;
			}
		}
	if (!digits || *p)
		return 0;
	*value = (int64_t)(whole << 16) + (int64_t)(((unsigned __int128)fraction * 65536 + scale / 2) / scale);
	if (negative)
		*value = -*value;
	return *value >= low && *value <= high;
}

/* The index of an option in its table; -1: not there. */
int rw_option_find(const struct rw_option *table, const char *name, size_t n)
{
	for (int i = 0; table[i].name; i++)
		if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
			return i;
	return -1;
}

rw_status rw_option_read(const char *owner, const struct rw_option *o, const char *text, int64_t *value,
			 rw_error *error)
{
	int good;
	if (o->kind == RW_OPTION_CHOICE) {
		*value = choice_index(o->values, text, strlen(text));
		good = *value >= 0;
	} else {
		good = read_q16(text, o->low_q16, o->high_q16, value);
	}
	if (good)
		return RW_OK;
	rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s: option %s takes %s, not '%s'", owner, o->name, o->values,
		     text);
	return RW_ERROR_BAD_VALUE;
}

rw_status rw_no_such_option(const char *owner, const struct rw_option *table, const char *name, size_t n,
			    rw_error *error)
{
	rw_error_set(error, RW_ERROR_UNKNOWN_OPTION, 0, 0, 0, "%s has no option '%.*s'", owner, (int)(n < 60 ? n : 60),
		     name);
	for (uint32_t i = 0; table[i].name; i++)
		rw_error_add_name(error, i, table[i].name);
	return RW_ERROR_UNKNOWN_OPTION;
}

/* The beginning of the value in "option=value". Null: another form. */
static const char *value_in(const char *owner, const char *text, rw_error *error)
{
	const char *equals = strchr(text, '=');
	if (!equals)
		rw_error_set(error, RW_ERROR_BAD_VALUE, 0, 0, 0, "%s: '%.60s' is not of the form option=value", owner,
			     text);
	return equals ? equals + 1 : NULL;
}

static rw_status set_option(const struct rw_control *control, const char *name, size_t n, const char *text,
			    struct rw_settings *settings, rw_error *error)
{
	int place = rw_option_find(control->options, name, n);
	if (place >= 0)
		return rw_option_read(control->name, &control->options[place], text, &settings->option[place], error);
	place = rw_option_find(shadow_options, name, n);
	if (place < 0 || place >= (int)shadow_option_count(control)) {
		rw_no_such_option(control->name, control->options, name, n, error);
		for (uint32_t i = 0; i < shadow_option_count(control); i++)
			rw_error_add_name(error, 1, shadow_options[i].name);
		return RW_ERROR_UNKNOWN_OPTION;
	}
	int64_t value;
	rw_status status = rw_option_read(control->name, &shadow_options[place], text, &value, error);
	if (status == RW_OK)
		*(place == SHADOW_GATE     ? &settings->gate
		  : place == SHADOW_LOSSES ? &settings->losses
					   : &settings->detector) = (uint8_t)value;
	return status;
}

static void set_defaults(const struct rw_option *table, int64_t *option)
{
	for (int i = 0; table[i].name; i++)
		option[i] = table[i].default_value;
}

rw_status rw_control_options(const struct rw_choice *choice, const struct rw_control *control,
			     struct rw_settings *settings, rw_error *error)
{
	memset(settings, 0, sizeof *settings); /* the shadow's defaults are their first values */
	set_defaults(control->options, settings->option);
	rw_status status = RW_OK;
	if (control->detector)
		status = set_option(control, "detector", strlen("detector"), control->detector, settings, error);
	for (uint32_t k = 0; k < choice->option_count && status == RW_OK; k++) {
		const char *text = choice->options[k], *value = value_in(control->name, text, error);
		if (!value)
			return RW_ERROR_BAD_VALUE;
		status = set_option(control, text, (size_t)(value - 1 - text), value, settings, error);
	}
	return status;
}

uint32_t rw_detector_find(const char *name)
{
	for (uint32_t i = 0; rw_detector_list[i]; i++)
		if (strcmp(rw_detector_list[i]->name, name) == 0)
			return i;
	return RW_DETECTORS_MAX;
}

/* A table's defaults, then what was chosen from it. */
static rw_status read_options(const char *owner, const struct rw_option *table, const rw_choice *choice,
			      int64_t *option, rw_error *error)
{
	memset(option, 0, RW_MAX_OPTIONS * sizeof *option);
	set_defaults(table, option);
	rw_status status = RW_OK;
	for (uint32_t k = 0; k < choice->option_count && status == RW_OK; k++) {
		const char *text = choice->options[k], *value = value_in(owner, text, error);
		if (!value)
			return RW_ERROR_BAD_VALUE;
		size_t n = (size_t)(value - 1 - text);
		int place = rw_option_find(table, text, n);
		status = place < 0 ? rw_no_such_option(owner, table, text, n, error)
				   : rw_option_read(owner, &table[place], value, &option[place], error);
	}
	return status;
}

rw_status rw_detector_options(const rw_choice *choice, uint32_t *which, int64_t *option, rw_error *error)
{
	*which = rw_detector_find(choice->name);
	if (*which == RW_DETECTORS_MAX) {
		rw_error_set(error, RW_ERROR_UNKNOWN_ALGORITHM, 0, 0, 0, "unknown detector '%.60s'", choice->name);
		for (uint32_t i = 0; rw_detector_list[i]; i++)
			rw_error_add_name(error, i, rw_detector_list[i]->name);
		return RW_ERROR_UNKNOWN_ALGORITHM;
	}
	return read_options(rw_detector_list[*which]->name, rw_detector_list[*which]->options, choice, option, error);
}

static const struct rw_scheduler *find_scheduler(const char *name)
{
	for (int i = 0; rw_scheduler_list[i]; i++)
		if (strcmp(rw_scheduler_list[i]->name, name) == 0)
			return rw_scheduler_list[i];
	return NULL;
}

rw_status rw_scheduler_options(const rw_choice *choice, const struct rw_scheduler **scheduler, int64_t *option,
			       rw_error *error)
{
	*scheduler = find_scheduler(choice->name);
	if (!*scheduler) {
		rw_error_set(error, RW_ERROR_UNKNOWN_SCHEDULER, 0, 0, 0, "unknown scheduler '%.60s'", choice->name);
		for (uint32_t i = 0; rw_scheduler_list[i]; i++)
			rw_error_add_name(error, i, rw_scheduler_list[i]->name);
		return RW_ERROR_UNKNOWN_SCHEDULER;
	}
	return read_options((*scheduler)->name, (*scheduler)->options, choice, option, error);
}

rw_status rw_algorithm_values(const rw_choice *choice, int64_t values[16], rw_error *error)
{
	memset(error, 0, sizeof *error);
	const struct rw_control *control = rw_control_find(choice->name);
	if (!control)
		return rw_unknown_control(choice->name, error);
	return read_options(control->name, control->options, choice, values, error);
}

rw_status rw_detector_values(const rw_choice *choice, int64_t values[16], rw_error *error)
{
	uint32_t which;
	memset(error, 0, sizeof *error);
	return rw_detector_options(choice, &which, values, error);
}

/* The contract's callbacks, in its order. */
static const struct {
	const char *name;
	size_t at;
	uint8_t required;
} callback_list[] = {
    {"ack", offsetof(struct rw_control, ack), 1},
    {"loss", offsetof(struct rw_control, loss), 1},
    {"ece", offsetof(struct rw_control, ece), 0},
    {"timeout", offsetof(struct rw_control, timeout), 0},
    {"undo", offsetof(struct rw_control, undo), 0},
    {"open", offsetof(struct rw_control, open), 0},
    {"begin", offsetof(struct rw_control, begin), 0},
    {"join", offsetof(struct rw_control, join), 0},
    {"leave", offsetof(struct rw_control, leave), 0},
    {"delivered", offsetof(struct rw_control, delivered), 0},
    {"rtt", offsetof(struct rw_control, rtt), 0},
    {"withheld", offsetof(struct rw_control, withheld), 0},
    {"idle", offsetof(struct rw_control, idle), 0},
    {"grouped", offsetof(struct rw_control, grouped), 0},
    {"regrouped", offsetof(struct rw_control, regrouped), 0},
    {"resume", offsetof(struct rw_control, resume), 0},
    {"phase", offsetof(struct rw_control, phase), 0},
    {"tick_ns", offsetof(struct rw_control, tick_ns), 0},
    {"rate", offsetof(struct rw_control, rate), 1},
    {"model", offsetof(struct rw_control, model), 1},
    {"lost", offsetof(struct rw_control, lost), 0},
    {"versions", offsetof(struct rw_control, versions), 0},
};
enum { CALLBACKS = sizeof callback_list / sizeof *callback_list };
typedef void (*any_callback)(void);
_Static_assert(offsetof(struct rw_control, ack) + CALLBACKS * sizeof(any_callback) == sizeof(struct rw_control),
	       "the contract ends with its callbacks, and each is listed");

static int has_callback(const struct rw_control *control, uint32_t i)
{
	static const any_callback null;
	return memcmp((const uint8_t *)control + callback_list[i].at, &null, sizeof null) != 0;
}

const char *rw_algorithm_callback(uint32_t index, uint32_t callback)
{
	for (uint32_t i = 0; i < CALLBACKS; i++)
		if (has_callback(rw_control_list[index], i) && callback-- == 0)
			return callback_list[i].name;
	return NULL;
}

int rw_control_drop(struct rw_control *control, const char *name)
{
	for (uint32_t i = 0; i < CALLBACKS; i++)
		if (strcmp(callback_list[i].name, name) == 0 && has_callback(control, i) &&
		    !callback_list[i].required) {
			memset((uint8_t *)control + callback_list[i].at, 0, sizeof(any_callback));
			return 1;
		}
	return 0;
}

uint32_t rw_algorithm_count(void)
{
	uint32_t n = 0;
	while (rw_control_list[n])
		n++;
	return n;
}

void rw_algorithm_describe(uint32_t index, rw_algorithm_info *info)
{
	const struct rw_control *c = rw_control_list[index];
	memset(info, 0, sizeof *info);
	info->name = c->name;
	info->source = c->source;
	info->formula = c->formula;
	info->deviations = c->deviations;
	info->detector = c->detector;
	info->multipath = c->multipath;
	while (c->options[info->options].name)
		info->options++;
	info->options += shadow_option_count(c);
}

rw_option_info rw_option_describe(const struct rw_option *o)
{
	uint8_t is_number = o->kind != RW_OPTION_CHOICE;
	return (rw_option_info){o->name, o->values, o->reason, is_number, o->default_value, o->low_q16, o->high_q16};
}

void rw_algorithm_option(uint32_t index, uint32_t option, rw_option_info *info)
{
	const struct rw_option *own = rw_control_list[index]->options;
	uint32_t owned = 0;
	while (own[owned].name)
		owned++;
	*info = rw_option_describe(option < owned ? &own[option] : &shadow_options[option - owned]);
	if (option == owned + SHADOW_DETECTOR) {
		const char *detector = rw_control_list[index]->detector;
		info->default_value = choice_index(info->values, detector, strlen(detector));
	}
}

uint32_t rw_detector_count(void)
{
	uint32_t n = 0;
	while (rw_detector_list[n])
		n++;
	return n;
}

void rw_detector_describe(uint32_t index, rw_algorithm_info *info)
{
	const struct rw_detector *d = rw_detector_list[index];
	*info = (rw_algorithm_info){d->name, d->source, d->formula, d->deviations, NULL, 1, 0};
	while (d->options[info->options].name)
		info->options++;
}

void rw_detector_option(uint32_t index, uint32_t option, rw_option_info *info)
{
	*info = rw_option_describe(&rw_detector_list[index]->options[option]);
}

const char *rw_detector_name(uint32_t index)
{
	return index < rw_detector_count() ? rw_detector_list[index]->name : NULL;
}

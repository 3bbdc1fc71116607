/* Numbers -> their names in reports and files. */
#include "rewindow.h"
#include "rw_control.h"

#define NAME_OF(names, i) ((i) < sizeof(names) / sizeof *(names) ? (names)[i] : 0)

const char *rw_oddity_name(uint32_t oddity)
{
	static const char *const names[RW_ODDITY_COUNT] = {
	    [RW_ODDITY_CUT_CAPTURE] = "cut_capture",
	    [RW_ODDITY_SECOND_HEADER] = "second_header",
	    [RW_ODDITY_CORRUPT_RECORD] = "corrupt_record",
	    [RW_ODDITY_BAD_BLOCK] = "bad_block",
	    [RW_ODDITY_BAD_TIMESTAMP] = "bad_timestamp",
	    [RW_ODDITY_BACKWARD_TIMESTAMP] = "backward_timestamp",
	    [RW_ODDITY_LATE_RECORD] = "late_record",
	    [RW_ODDITY_NO_TIMESTAMP] = "no_timestamp",
	    [RW_ODDITY_UNKNOWN_INTERFACE] = "unknown_interface",
	    [RW_ODDITY_TOO_MANY_INTERFACES] = "too_many_interfaces",
	    [RW_ODDITY_UNKNOWN_LINK_TYPE] = "unknown_link_type",
	    [RW_ODDITY_COMPRESSED_PPP] = "compressed_ppp",
	    [RW_ODDITY_DROPPED_PACKETS] = "dropped_packets",
	    [RW_ODDITY_TRUNCATED_HEADER] = "truncated_header",
	    [RW_ODDITY_BAD_LENGTH] = "bad_length",
	    [RW_ODDITY_BAD_OPTION_LENGTH] = "bad_option_length",
	    [RW_ODDITY_IP_FRAGMENT] = "ip_fragment",
	    [RW_ODDITY_LOST_FRAGMENT] = "lost_fragment",
	    [RW_ODDITY_CAPTURED_TWICE] = "captured_twice",
	    [RW_ODDITY_UNSEEN_DATA] = "unseen_data",
	    [RW_ODDITY_UNMATCHED_JOIN] = "unmatched_join",
	    [RW_ODDITY_NO_HANDSHAKE] = "no_handshake",
	    [RW_ODDITY_TOO_MANY_FLOWS] = "too_many_flows",
	    [RW_ODDITY_TOO_MANY_SUBFLOWS] = "too_many_subflows",
	    [RW_ODDITY_WINDOW_TOO_LARGE] = "window_too_large",
	};
	return NAME_OF(names, oddity);
}

const char *rw_mark_name(uint32_t mark)
{
	static const char *const names[] = {
	    [RW_MARK_JOIN] = "join",           [RW_MARK_LEAVE] = "leave", [RW_MARK_FAST_RETRANSMIT] = "fast_retransmit",
	    [RW_MARK_TIMEOUT] = "timeout",     [RW_MARK_ECE] = "ece",     [RW_MARK_TAIL_LOSS] = "tail_loss",
	    [RW_MARK_RECOVERED] = "recovered", [RW_MARK_UNDO] = "undo",   [RW_MARK_IDLE] = "idle",
	};
	return NAME_OF(names, mark);
}

const char *rw_segment_kind_name(uint32_t kind)
{
	static const char *const names[] = {
	    [RW_SEGMENT_DATA] = "data",
	    [RW_SEGMENT_RETRANSMISSION] = "retransmission",
	    [RW_SEGMENT_REINJECTION] = "reinjection",
	    [RW_SEGMENT_SACK] = "sack",
	    [RW_SEGMENT_DSACK] = "dsack",
	};
	return NAME_OF(names, kind);
}

const char *rw_phase_name(uint32_t phase)
{
	static const char *const names[] = {
	    [RW_PHASE_SLOW_START] = "slow_start",
	    [RW_PHASE_COUPLED_SLOW_START] = "coupled_slow_start",
	    [RW_PHASE_CONGESTION_AVOIDANCE] = "congestion_avoidance",
	    [RW_PHASE_RECOVERY] = "recovery",
	    [RW_PHASE_LOSS] = "loss",
	    [RW_PHASE_CWR] = "cwr",
	    [RW_PHASE_STARTUP] = "startup",
	    [RW_PHASE_DRAIN] = "drain",
	    [RW_PHASE_PROBE_BW] = "probe_bw",
	    [RW_PHASE_PROBE_BW_DOWN] = "probe_bw_down",
	    [RW_PHASE_PROBE_BW_CRUISE] = "probe_bw_cruise",
	    [RW_PHASE_PROBE_BW_REFILL] = "probe_bw_refill",
	    [RW_PHASE_PROBE_BW_UP] = "probe_bw_up",
	    [RW_PHASE_PROBE_RTT] = "probe_rtt",
	};
	return NAME_OF(names, phase);
}

const char *rw_send_times_name(uint32_t send_times)
{
	static const char *const names[] = {
	    [RW_SEND_TIMES_CAPTURED] = "captured",
	    [RW_SEND_TIMES_TIMESTAMPS] = "timestamps",
	    [RW_SEND_TIMES_ROUND_TRIP] = "round_trip",
	};
	return NAME_OF(names, send_times);
}

const char *rw_ecn_mode_name(uint32_t ecn)
{
	static const char *const names[] = {
	    [RW_ECN_UNKNOWN] = "unknown",
	    [RW_ECN_OFF] = "off",
	    [RW_ECN_CLASSIC] = "classic",
	    [RW_ECN_ACCURATE] = "accurate",
	};
	return NAME_OF(names, ecn);
}

const char *rw_vantage_name(uint32_t vantage)
{
	static const char *const names[] = {
	    [RW_VANTAGE_UNKNOWN] = "unknown",
	    [RW_VANTAGE_SENDER] = "sender",
	    [RW_VANTAGE_MIDDLE] = "middle",
	    [RW_VANTAGE_RECEIVER] = "receiver",
	};
	return NAME_OF(names, vantage);
}

const char *rw_group_state_name(uint32_t state)
{
	static const char *const names[] = {
	    [RW_GROUP_MONITOR] = "monitor",
	    [RW_GROUP_JUDGEMENT] = "judgement",
	    [RW_GROUP_FINAL] = "final",
	};
	return NAME_OF(names, state);
}

const char *rw_bottleneck_state_name(uint32_t state)
{
	static const char *const names[] = {
	    [RW_BOTTLENECK_NOT_ASKED] = "not_asked", [RW_BOTTLENECK_NOT_JUDGED] = "not_judged",
	    [RW_BOTTLENECK_UNDECIDED] = "undecided", [RW_BOTTLENECK_ALONE] = "alone",
	    [RW_BOTTLENECK_SHARED] = "shared",
	};
	return NAME_OF(names, state);
}

const char *rw_transition_name(uint32_t kind)
{
	static const char *const names[] = {
	    [RW_TRANSITION_JOIN] = "join",
	    [RW_TRANSITION_LEAVE] = "leave",
	    [RW_TRANSITION_ACK] = "ack",
	    [RW_TRANSITION_LOSS] = "loss",
	    [RW_TRANSITION_ECE] = "ece",
	    [RW_TRANSITION_TIMEOUT] = "timeout",
	    [RW_TRANSITION_UNDO] = "undo",
	    [RW_TRANSITION_RTT] = "rtt",
	    [RW_TRANSITION_IDLE] = "idle",
	    [RW_TRANSITION_MACHINERY] = "machinery",
	    [RW_TRANSITION_SETS] = "sets",
	    [RW_TRANSITION_DELIVERED] = "delivered",
	    [RW_TRANSITION_DETECTOR_JOIN] = "detector_join",
	    [RW_TRANSITION_DETECTOR_LEAVE] = "detector_leave",
	    [RW_TRANSITION_DETECTOR_ECE] = "detector_ece",
	    [RW_TRANSITION_DETECTOR_LOSS] = "detector_loss",
	    [RW_TRANSITION_JUDGE_SUBFLOW] = "judge_subflow",
	    [RW_TRANSITION_JUDGE_SET] = "judge_set",
	    [RW_TRANSITION_DETECTOR_END] = "detector_end",
	};
	return NAME_OF(names, kind);
}

const char *rw_check_name(uint32_t check)
{
	static const char *const names[RW_CHECK_COUNT] = {
	    [RW_CHECK_WINDOW_HELD] = "WindowHeld",
	    [RW_CHECK_FLOOR_HELD] = "FloorHeld",
	    [RW_CHECK_ALPHA_IN_RANGE] = "AlphaInRange",
	    [RW_CHECK_INITIAL_TOGETHER] = "InitialTogether",
	    [RW_CHECK_COUPLED_HAS_OWN_THRESHOLD] = "CoupledHasOwnThreshold",
	    [RW_CHECK_NO_REENTRY] = "NoReentry",
	    [RW_CHECK_COUPLING_ENDS] = "CouplingEnds",
	    [RW_CHECK_ACK_CAPPED] = "AckCapped",
	    [RW_CHECK_COUPLED_NEVER_SHRINKS] = "CoupledNeverShrinks",
	    [RW_CHECK_GROWS_BY_ALPHA] = "GrowsByAlpha",
	    [RW_CHECK_GROWS_WHILE_BELOW] = "GrowsWhileBelow",
	    [RW_CHECK_GROWS_TO_THRESHOLD] = "GrowsToThreshold",
	    [RW_CHECK_EXIT_JUSTIFIED] = "ExitJustified",
	    [RW_CHECK_EXIT_FREEZES] = "ExitFreezes",
	    [RW_CHECK_THRESHOLDS_SPARED] = "ThresholdsSpared",
	    [RW_CHECK_LOSS_IS_PRIVATE] = "LossIsPrivate",
	    [RW_CHECK_LOSS_UNCOUPLES] = "LossUncouples",
	    [RW_CHECK_JOINS_AT_IW] = "JoinsAtIW",
	    [RW_CHECK_ALPHA_MOVES] = "AlphaMoves",
	    [RW_CHECK_NO_SLOW_START_ABOVE] = "NoSlowStartAboveThreshold",
	    [RW_CHECK_AVOIDANCE] = "AvoidanceAsSpecified",
	    [RW_CHECK_DECREASE] = "DecreaseAsSpecified",
	    [RW_CHECK_OTHERS_SPARED] = "OthersSpared",
	    [RW_CHECK_SETS_OF_TWO] = "SetsOfTwo",
	    [RW_CHECK_BETA_IN_RANGE] = "BetaInRange",
	    [RW_CHECK_TABLE_AGREES] = "TableAgrees",
	    [RW_CHECK_CLOSED_IN_NONE] = "ClosedInNone",
	    [RW_CHECK_TWO_STAGES] = "TwoStages",
	    [RW_CHECK_SETS_WHOLE] = "SetsWhole",
	    [RW_CHECK_JUDGED_AS_SEEN] = "JudgedAsSeen",
	    [RW_CHECK_ONLY_NOTED] = "OnlyNoted",
	    [RW_CHECK_COUPLED_VERIFIED] = "CoupledVerified",
	    [RW_CHECK_COUPLED_RTT] = "CoupledRttSmoothed",
	    [RW_CHECK_BETA_AS_MARKED] = "BetaAsMarked",
	    [RW_CHECK_UNDO_GIVES_BACK] = "UndoGivesBack",
	    [RW_CHECK_PEAK_OF_FLIGHT] = "PeakOfFlight",
	    [RW_CHECK_JOINS_ANEW] = "JoinsAnew",
	    [RW_CHECK_MACHINERY_SPARES] = "MachinerySpares",
	    [RW_CHECK_IDLE_KEEPS] = "IdleKeeps",
	};
	return NAME_OF(names, check);
}

// The measures of the team's page: how they are called, written and judged.
import { ms, percent, seconds, si } from "./format";

export interface Measure {
  name: string;
  words: string;
  meaning: string;
  shown: (value: number) => string;
  // A median up to the first is good and above the second poor, or the other way round; null: compared with the median of all.
  thresholds: [number, number] | null;
  lessIsBetter: boolean;
  isBestAt1?: boolean; // the farther from 1 the worse, by whatever factor
  ofGroups?: boolean; // of connections, which differ in what is no dimension of their capture
}

const ratio = (v: number) => v.toFixed(v < 10 ? 2 : 1);

export const MEASURES: Measure[] = [
  { name: "jain", words: "fairness", meaning: "Jain's index of connections that share a bottleneck: 1 when all got the same goodput", shown: ratio, thresholds: [0.95, 0.85], lessIsBetter: false, ofGroups: true },
  { name: "retransmission_rate", words: "retransmission rate", meaning: "part of the data packets that were sent again", shown: (v) => percent(v), thresholds: [0.01, 0.03], lessIsBetter: true },
  { name: "rtt_inflation", words: "RTT inflation", meaning: "median RTT over the smallest: how much queues add", shown: (v) => `${ratio(v)}×`, thresholds: [1.5, 2.5], lessIsBetter: true },
  { name: "completion_short_s", words: "completion of short flows", meaning: "time that connections with less than 1 MB of data took", shown: (v) => seconds(v), thresholds: null, lessIsBetter: true },
  { name: "completion_long_s", words: "completion of long flows", meaning: "time that connections with 1 MB of data or more took", shown: (v) => seconds(v), thresholds: null, lessIsBetter: true },
  { name: "goodput_bps", words: "goodput", meaning: "bytes of data over the time that they took", shown: (v) => si(v, "bit/s"), thresholds: null, lessIsBetter: false },
  { name: "rtt_us", words: "RTT", meaning: "median round-trip time", shown: (v) => ms(v), thresholds: null, lessIsBetter: true },
  { name: "mptcp_to_tcp_ratio", words: "MPTCP / TCP", meaning: "mean goodput of MPTCP over that of TCP at a shared bottleneck", shown: ratio, thresholds: [1.25, 2], lessIsBetter: false, isBestAt1: true, ofGroups: true },
  { name: "fair_share_ratio", words: "part of the fair share", meaning: "what a connection got of a shared bottleneck over its max-min fair share: above 1 it took from others", shown: ratio, thresholds: [1.25, 2], lessIsBetter: false, isBestAt1: true },
  { name: "harm", words: "harm", meaning: "part of the goodput without another connection that one loses beside it, in simulations of stored what-ifs", shown: (v) => percent(v), thresholds: null, lessIsBetter: true },
];

// Measures of an algorithm only.
export const LABELLED: Measure[] = [
  { name: "window", words: "replayed window", meaning: "mean window of a replay in segments, summed over the subflows", shown: (v) => v.toFixed(1), thresholds: null, lessIsBetter: false },
  { name: "whatif", words: "what-if goodput", meaning: "goodput that a stored what-if predicts over the recorded one", shown: (v) => `${ratio(v)}×`, thresholds: null, lessIsBetter: false },
];

// Of these an algorithm's name follows, after a colon; harm is also that of all.
export const OF_ALGORITHM = ["window", "whatif", "harm"];

// What the page draws over time.
export const TRENDS = ["jain", "retransmission_rate", "rtt_inflation", "completion_short_s", "completion_long_s", "goodput_bps"];

// undefined: there is no such measure.
export function known(name: string | null): Measure | undefined {
  const [kind, label] = [name?.split(":")[0], name?.split(":").slice(1).join(":")];
  const found = [...MEASURES, ...LABELLED].find((m) => m.name === kind && (label ? OF_ALGORITHM.includes(m.name) : m.name === "harm" || !OF_ALGORITHM.includes(m.name)));
  if (found && label) return { ...found, name: `${kind}:${label}`, words: `${found.words} of ${label}` };
  return found;
}

export const measure = (name: string | null): Measure => known(name) ?? (MEASURES[1] as Measure);

export type Judgement = "good" | "limited" | "poor";

// The limits of a measure: its own, or 1.25 and 2 times away from the median of all.
export function limitsOf(m: Measure, all: number | null): [number, number] | null {
  if (m.thresholds) return m.thresholds;
  if (all === null || all <= 0) return null;
  return m.lessIsBetter ? [all * 1.25, all * 2] : [all / 1.25, all / 2];
}

export function judged(m: Measure, limits: [number, number] | null, value: number): Judgement | undefined {
  if (!limits) return undefined;
  const [good, poor] = limits;
  if (m.isBestAt1) return offBy(value) <= good ? "good" : offBy(value) <= poor ? "limited" : "poor";
  if (m.lessIsBetter) return value <= good ? "good" : value <= poor ? "limited" : "poor";
  return value >= good ? "good" : value >= poor ? "limited" : "poor";
}

const offBy = (value: number) => Math.max(value, 1 / value);

export const isWorse = (m: Measure, before: number, after: number) =>
  m.isBestAt1 ? offBy(after) > offBy(before) : after > before === m.lessIsBetter;

export const limitsInWords = (m: Measure, [good, poor]: [number, number]) =>
  m.isBestAt1
    ? `good: ${m.shown(1 / good)} to ${m.shown(good)}; poor: below ${m.shown(1 / poor)} and above ${m.shown(poor)}`
    : m.lessIsBetter
    ? `good: up to ${m.shown(good)}; poor: above ${m.shown(poor)}`
    : `good: ${m.shown(good)} and more; poor: below ${m.shown(poor)}`;

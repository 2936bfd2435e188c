// Short names of the API's types, and those of the live stream and history.
import type { components } from '../../generated/schema';

type Schemas = components['schemas'];
export type ApiToken = Schemas['ApiToken'];
export type AuditEntry = Schemas['AuditEntry'];
export type Attachment = Schemas['Attachment'];
export type Database = Schemas['Database'];
export type DatabaseProof = Schemas['DatabaseProof'];
export type DatabaseReady = Schemas['DatabaseReady'];
export type DatabaseWaits = Schemas['DatabaseWaits'];
export type WaitCause = Schemas['WaitCause'];
export type Door = Schemas['Door'];
export type Export = Schemas['Export'];
export type Host = Schemas['Host'];
export type DoorClient = Schemas['DoorClient'];
export type DoorIo = Schemas['DoorIo'];
export type Drive = Schemas['Drive'];
export type Event = Schemas['Event'];
export type IoProfile = Schemas['IoProfile'];
export type RequestProfile = Schemas['RequestProfile'];
export type Job = Schemas['Job'];
export type LabPart = Schemas['LabPart'];
export type LabResult = Schemas['LabResult'];
export type Mark = Schemas['Mark'];
export type Objective = Schemas['Objective'];
export type Pool = Schemas['Pool'];
export type PoolSpace = Schemas['PoolSpace'];
export type Problem = Schemas['Problem'];
export type Reclaim = Schemas['Reclaim'];
export type Role = Schemas['Role'];
export type Schedule = Schemas['Schedule'];
export type Snapshot = Schemas['Snapshot'];
export type Space = Schemas['Space'];
export type Status = Schemas['Status'];
export type TokenScope = Schemas['TokenScope'];
export type User = Schemas['User'];
export type Who = Schemas['Session'];
export type Volume = Schemas['Volume'];
export type VolumeUser = Schemas['VolumeUser'];
export type DeletedVolume = Schemas['DeletedVolume'];

export interface Percentiles {
  p50: number;
  p99: number;
  max: number;
}

export interface Rates {
  reads_per_second: number;
  writes_per_second: number;
  read_bytes_per_second: number;
  write_bytes_per_second: number;
  others_per_second: number;
  errors_per_second: number;
  read_latency_micros: Percentiles | null;
  write_latency_micros: Percentiles | null;
}

export interface PoolFigures {
  pool: string;
  full_percent: number;
  rates: Rates;
  drive_read_bytes_per_second: number;
  drive_write_bytes_per_second: number;
}

export interface Figures {
  unix_millis: number;
  interval_millis: number;
  array: Rates;
  pools: PoolFigures[];
  volumes: { volume: string; rates: Rates }[];
}

export interface Hello {
  boot_id: string;
  interval_millis: number;
  version: string;
}

export type HistoryRange = 'hour' | 'day' | 'week';

export interface Point {
  unix_millis: number;
  rates: Rates;
}

export interface History {
  object: string;
  range: HistoryRange;
  step_seconds: number;
  points: Point[];
}

export interface Latencies {
  object: string;
  range: HistoryRange;
  step_seconds: number;
  /// Where the classes end; one more has no end.
  bounds_micros: number[];
  steps: { unix_millis: number; reads: number[]; writes: number[] }[];
}

export const NO_RATES: Rates = {
  reads_per_second: 0,
  writes_per_second: 0,
  read_bytes_per_second: 0,
  write_bytes_per_second: 0,
  others_per_second: 0,
  errors_per_second: 0,
  read_latency_micros: null,
  write_latency_micros: null,
};

/**
 * Messages between the chaos driver and its agent processes. An agent is a child process that was
 * started by `fork()`; its only argument is an {@link AgentSpec} as JSON.
 */
import { z } from 'zod'

/** Servers and users of an agent process. */
export interface AgentSpec {
  /** Name in reports, such as `agent-2`. */
  readonly name: string
  /** URL of each server, by the name that calls use. */
  readonly servers: Readonly<Record<string, string>>
  /** Users that the agent acts for. Each one sends `Authorization: Bearer <principal>`. */
  readonly principals: readonly string[]
  /** Service that keeps session records, so that the next process resumes them. Absent: in memory. */
  readonly debugStateUrl?: string
  /** Seed for choices that the agent makes itself. */
  readonly seed: number
  /** Milliseconds after which each call must have settled; the default of {@link Call.deadlineMs}. */
  readonly deadlineMs: number
  /** Which client the agent uses, where its program knows several. */
  readonly kind?: string
}

/** A service process, on a port that stays the same when it is started again. */
export type ServiceSpec =
  | { readonly type: 'debug-state'; readonly port: number; readonly file: string }
  | {
      readonly type: 'gateway'
      readonly port: number
      readonly redisUrl: string
      readonly principals: readonly string[]
    }

/** Sent by a replica of the gateway when its tool starts. */
export const Execution: z.ZodType<{ key: string; principal: string }> = z.object({
  key: z.string(),
  principal: z.string(),
})

/** One tool call that the agent makes. */
export interface Call {
  /** Unique in the run. The tool gets it as its argument `key`, and returns it. */
  readonly key: string
  /** A name in {@link AgentSpec.servers}. */
  readonly server: string
  readonly principal: string
  readonly tool: string
  /** Milliseconds after which the call must have settled. */
  readonly deadlineMs: number
  /** The caller gives the call up after so many milliseconds. Absent: never. */
  readonly abortAfterMs?: number
}

/**
 * Outcome that the client reported. `executed`: it returned a result. `not-executed` and `unknown`: its
 * error says so. `failed`: its error does not say whether the call was executed, as with most clients.
 */
export type Outcome = 'executed' | 'not-executed' | 'unknown' | 'failed'

/** A call that has settled. */
export interface Settlement {
  readonly key: string
  readonly outcome: Outcome
  /** Duration in milliseconds, on a clock that never jumps. */
  readonly ms: number
  /** Part of `ms` in which the event loop of the agent was late: the machine was busy, not the client. */
  readonly lagMs: number
  /** Result of the tool: the key of the call and the principal that the server saw. */
  readonly answer?: { readonly key: string; readonly principal: string }
  /** Keys that arrived in progress notifications of this call. */
  readonly progressKeys: readonly string[]
  /** Code and message of the error. */
  readonly error?: string
}

/** Heap and resources of an agent process after a garbage collection. */
export interface Holdings {
  readonly heapBytes: number
  /** Counts of `process.getActiveResourcesInfo()`, without the channel to the driver. */
  readonly resources: Readonly<Record<string, number>>
}

export type DriverMessage =
  | { readonly type: 'call'; readonly call: Call }
  /** `Date.now()` jumps by this many milliseconds, forward or back. */
  | { readonly type: 'jump-clock'; readonly ms: number }
  /** Closes all clients, then reports what is left. */
  | { readonly type: 'close' }

export type AgentMessage =
  | { readonly type: 'ready'; readonly holdings: Holdings }
  | { readonly type: 'settled'; readonly settlement: Settlement }
  | { readonly type: 'closed'; readonly holdings: Holdings }

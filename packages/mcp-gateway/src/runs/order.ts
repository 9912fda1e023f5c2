import type { CallToolResult } from '@modelcontextprotocol/server'

import { RunFailure } from '../agents/agent.ts'
import type {
  CheckedInput,
  Question,
  RemoteRun,
  Resume,
  RunnableAgents,
  RunTool,
} from '../agents/agent.ts'
import type { EarlierFiles, ResultFiles } from '../files/result-files.ts'
import type { Clock } from '../internal/clock.ts'
import { ownerOf, type Caller, type Principal } from '../internal/principal.ts'
import { randomHex } from '../internal/random-hex.ts'
import type { RunSettings } from '../options.ts'
import type { Records } from '../store/gateway-store.ts'
import type { ProcessLease } from '../store/lease.ts'
import type { QuestionForm } from './forms.ts'
import type { LiveCall } from './live-call.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Settings, store, clock and agents, for `Runs` and its parts. */
export interface RunStorage extends RunSettings {
  /** Time that a cancelled agent has to end. */
  readonly stopGraceMs: number
  /** Time for which a task, and the outcome of a call with an idempotency key, are kept after its end. */
  readonly resultTtlMs: number
  readonly agents: RunnableAgents
  /** Stores the files of runs, and opens files of callers. */
  readonly files: ResultFiles
  /** Stores calls and conversations. */
  readonly records: Records
  readonly clock: Clock
  /** Shows other processes that this one is alive, while it executes stored calls. */
  readonly lease: ProcessLease
}

/** Returns the time after which a run of a tool has ended, once it has begun, in milliseconds. */
export function maxRunMsOf(tool: RunTool, { timeoutMs }: Pick<RunSettings, 'timeoutMs'>): number {
  return tool.timeoutMs ?? timeoutMs
}

/**
 * One call of a tool as data, after its caller was authorized and its arguments were checked. JSON: any
 * process can run a stored order.
 */
export interface RunOrder {
  readonly runId: string
  /**
   * Arguments as the client meant them (see `fittedArguments()`), without `resume`. A continued run must have the same.
   * `undefined` if the client sent a `resume` argument alone.
   */
  readonly arguments: JsonObject | undefined
  /** Input of the agent, without files. `undefined` if the client sent a `resume` argument alone. */
  readonly input: CheckedInput | undefined
  /** As `AgentCall.context`. */
  readonly context?: JsonObject | undefined
  /** Name of the conversation, as the caller gave it. `undefined`: the one without a name. */
  readonly conversation?: string | undefined
  /** URIs of the files of the input. They may not exist. */
  readonly files: readonly string[]
  readonly principal: Principal
  /** Scope of the session, for callers without a name. */
  readonly scope: string | undefined
  /** IP address of the client. Files and slots of callers without a name are counted by it. */
  readonly address: string | undefined
  readonly client: RunClient
  /**
   * Identifies this call among those of its caller. A call with the same key and arguments joins the call that runs, or
   * gets its result. Has no effect if others can guess who the caller is: see `isKeyEffective()`.
   */
  readonly idempotencyKey: string | undefined
  readonly resume: RunResume | undefined
  readonly trace: Readonly<Record<string, string>> | undefined
  /** Number of the execution by an engine, as `AgentCall.attempt`. */
  readonly attempt?: number | undefined
}

/** The client of a call, and the questions that it can show to its user. */
export interface RunClient {
  /** The client can show a form (`elicitation`). */
  readonly canAsk: boolean
  /** The client can send its user to a page (`elicitation.url`). */
  readonly canVisit: boolean
  /** `false`: its revision (before 2025-11-25) has no multiple choice, and no titles of choices. */
  readonly knowsChoices: boolean
}

/** The connection of a call to the client that waits for its result. */
export interface RunSink {
  /** Aborts when the client cancels the call or leaves. */
  readonly signal: AbortSignal
  /** Sends text before the result. `undefined`: the client did not ask for progress. */
  readonly progress: RunProgress | undefined
  /** As `AgentCall.remote`. */
  readonly remote?: RemoteRun | undefined
  /** Stores the files of the run so far, for a process that continues it. `undefined`: none does. Never rejects. */
  readonly keepFiles?: ((soFar: () => Promise<EarlierFiles>) => Promise<void>) | undefined
  /** The execution, if it has begun. */
  readonly live?: Pick<LiveCall, 'run'> | undefined
}

/**
 * Sends one piece of progress. Numbers start at 1 and increase. Resolves when the client took the piece: until then
 * further pieces are joined, or dropped if they are too many. Rejections are ignored.
 */
export type RunProgress = (piece: {
  readonly progress: number
  readonly message: string
}) => void | Promise<void>

export interface RunResume {
  /** The verified `requestState`, or `{ run }` of the `resume` argument. */
  readonly state: unknown
  /** Answers by the key of the question, as the client sent them. Not checked. */
  readonly responses: Readonly<Record<string, unknown>>
}

/** Names a round of a run. Clients can read it, but not change it. */
export interface RequestState {
  readonly runId: string
  /** Number of the round, from 1. Each round is answered once. */
  readonly round: number
  readonly tool: string
  /** Hash of the arguments. The call with the answers must have the same. */
  readonly args: string
}

export type ToolOutcome =
  /** With an answer, or with an error that the model can read (`isError`, `_meta.reason`). */
  | {
      readonly type: 'result'
      readonly result: CallToolResult
      /** `false`: the agent did not get the call. @default true */
      readonly isStarted?: boolean | undefined
    }
  /** With questions. The client gets `state` signed, and sends it back with the answers. */
  | {
      readonly type: 'input'
      readonly forms: readonly QuestionForm[]
      readonly state: RequestState
      /** The call becomes no task before they are answered. @default false */
      readonly isBeforeTask?: boolean | undefined
    }

/** One execution of an agent: from the call, or from the answers to a question, to the next question or the result. */
export interface Execution {
  readonly tool: RunTool
  readonly order: RunOrder
  readonly sink: RunSink
  /** State after the last question. `undefined`: this is the first execution. */
  readonly earlier?: EarlierExecution | undefined
}

interface EarlierExecution {
  /** `undefined`: the run begins again. */
  readonly resume: Resume | undefined
  readonly files: EarlierFiles | undefined
  /** Number of the last piece of progress. A client may see the next execution as the same call. */
  readonly progress: number
}

export type RunEnding =
  | (Extract<ToolOutcome, { type: 'result' }> & {
      /** The agent finished without output. @default false */
      readonly isEmpty?: boolean
    })
  | ({
      readonly type: 'asked'
      readonly questions: readonly Question[]
      /** The agent has no state to continue with: with the answers, the run begins again. */
      readonly beginsAnew: boolean
      readonly state: unknown
    } & Pick<EarlierExecution, 'files' | 'progress'>)

/** Names a run to clients, to agents and in logs: `run_` and 16 hexadecimal digits. */
export function newRunId(): string {
  return `run_${randomHex(8)}`
}

export function isRunId(value: unknown): value is string {
  return typeof value === 'string' && /^run_[0-9a-f]{16}$/.test(value)
}

/** Name of idempotency keys in capabilities of a server, and in `_meta` of results. */
export const IDEMPOTENCY = 'io.github.x-mcp/idempotency'

/** A text of this length, such as the id of a scope, cannot be guessed. */
const UNGUESSABLE_CHARS = 26

/** Returns whether the key of a call has an effect. Callers without a name have to prove by it that they are the same. */
export function isKeyEffective(caller: Caller, key: string): boolean {
  return ownerOf(caller) !== undefined || key.length >= UNGUESSABLE_CHARS
}

/** A larger result is returned to the calls that wait for it, and not stored. */
const MAX_STORED_CHARS = 1024 * 1024

/** Returns whether a result may be stored for a repeat of its call. */
export function isStorable(result: CallToolResult): boolean {
  return JSON.stringify(result).length <= MAX_STORED_CHARS
}

/** Returns the failure of a call that can be made again soon. */
export function busy(text: string): RunFailure {
  return new RunFailure('busy', text, { retryAfterMs: 5000 })
}

import type { ContentBlock, ElicitRequestFormParams } from '@modelcontextprotocol/sdk/types.js'
import type { ExecutionType, ProcessName, QuestionAction, ServerTrouble } from './commands.ts'

/** Something that happened, and when. */
export type TimelineEvent = { readonly at: number } & Happening

/** `at` and all times are milliseconds since 1970. */
export type Happening =
  | { readonly type: 'process'; readonly process: ProcessState }
  | { readonly type: 'server'; readonly server: ServerState }
  /** An exchange started, or went on: the newer one replaces the older one with the same id. */
  | { readonly type: 'exchange'; readonly exchange: Exchange }
  | { readonly type: 'records'; readonly records: readonly SessionRecord[] }
  /** An item of the conversation is new, or replaces the older one with the same type and id. */
  | { readonly type: 'item'; readonly item: ConversationItem }
  /** An agent goes on with its message. */
  | { readonly type: 'text'; readonly id: string; readonly text: string }
  | { readonly type: 'tool-call-changed'; readonly id: string; readonly change: ToolCallChange }
  | { readonly type: 'run'; readonly run: RunState }
  /** A new or a stored conversation takes the place of the one before. */
  | {
      readonly type: 'conversation'
      readonly items: readonly ConversationItem[]
      readonly run?: RunState | undefined
    }
  /** What a command did, or why it failed; for the person, in one or two sentences. */
  | { readonly type: 'notice'; readonly level: 'info' | 'problem'; readonly text: string }

/** One of the processes that run for the playground. */
export interface ProcessState {
  readonly name: ProcessName
  readonly pid?: number | undefined
  readonly state: 'starting' | 'running' | 'killed' | 'failed'
  readonly executionType: ExecutionType
  /** Name of the model, such as "scripted" or "gpt-5-mini". */
  readonly model: string
  /** Why it failed, and what to do. */
  readonly problem?: string | undefined
}

export interface ServerState {
  /** Also the name of its lane. `debug-state` is one too. */
  readonly name: string
  readonly title: string
  readonly transport: 'http' | 'stdio'
  /** The protocol revision that it answers with; absent for stdio before the first call, and for debug state. */
  readonly revision?: string | undefined
  readonly state: 'starting' | 'running' | 'stopped' | 'failed'
  readonly problem?: string | undefined
  /** What a person can do to it. */
  readonly troubles: readonly ServerTrouble['name'][]
}

/** Name of the lane of the debug-state service. */
export const DEBUG_STATE = 'debug-state'

export type ExchangeKind =
  | 'handshake'
  | 'call'
  | 'loss'
  | 'recovery'
  | 'resume'
  | 'stream'
  | 'state'
  | 'other'

/** One HTTP request and its answer, as a proxy in front of the server saw it. */
export interface Exchange {
  readonly id: number
  /** Programs that read `.playground.env`, such as LangGraph Studio, are other clients. */
  readonly from: ProcessName | 'other client'
  /** Name of the server. */
  readonly to: string
  readonly kind: ExchangeKind
  /** Its tool, its method, or the purpose of a request without either. */
  readonly label: string
  readonly httpMethod: string
  readonly rpcMethod?: string | undefined
  readonly toolName?: string | undefined
  /** Shortened. */
  readonly sessionId?: string | undefined
  readonly revision?: string | undefined
  readonly startedAt: number
  /** Absent while it is open. */
  readonly durationMs?: number | undefined
  /** Absent before the head of the answer, and where there was none. */
  readonly status?: number | undefined
  /** How it ended, if not with a whole answer. */
  readonly problem?: 'client left' | 'connection broke' | undefined
  readonly requestBytes: number
  readonly responseBytes: number
}

/** `GET /api/exchanges/:id`: what an exchange shows when it is opened. Ids are shortened, secrets are masked. */
export interface ExchangeDetails {
  readonly request: MessageDetails
  readonly response?: MessageDetails | undefined
}

export interface MessageDetails {
  readonly headers: Readonly<Record<string, string>>
  /** The first 64 KiB. */
  readonly body: string
  readonly isCut: boolean
}

/** A session that the debug-state service keeps. */
export interface SessionRecord {
  readonly server: string
  /** Shortened. */
  readonly sessionId?: string | undefined
  readonly revision?: string | undefined
  readonly era: 'legacy' | 'modern'
  readonly savedAt: number
}

export type ConversationItem = Message | ToolCall | Question

interface Message {
  readonly type: 'message'
  readonly id: string
  readonly from: 'user' | 'agent'
  /** `supervisor`, `shopper`, `assistant`; for agents only. */
  readonly agent?: string | undefined
  readonly text: string
}

export interface ToolCall extends ToolCallChange {
  readonly type: 'tool-call'
  readonly id: string
  /** The agent that calls. */
  readonly agent: string
  readonly name: string
  readonly args: unknown
}

interface ToolCallChange {
  /** How far the call is, in a few words. */
  readonly progress?: string | undefined
  readonly result?: ToolResult | undefined
}

export interface ToolResult {
  readonly isError: boolean
  /** Texts above 20,000 characters are cut, and binary data above 1 MiB is replaced by a text that says so. */
  readonly content: readonly ContentBlock[]
  readonly structuredContent?: unknown
}

export interface Question {
  readonly type: 'question'
  readonly id: string
  /** Name of the server that asks. */
  readonly server: string
  readonly message: string
  readonly mode: 'form' | 'url'
  /** Schema of the form (specification 2025-11-25, elicitation). Absent if the server sent one that is not allowed. */
  readonly schema?: ElicitRequestFormParams['requestedSchema'] | undefined
  readonly url?: string | undefined
  /** Absent while it is open. */
  readonly action?: QuestionAction | undefined
}

export interface RunState {
  readonly id: string
  readonly state: 'running' | 'waiting' | 'done' | 'failed' | 'lost'
  readonly problem?: string | undefined
}

import type { Principal } from '../internal/principal.ts'
import type { AgentInput } from '../agents/agent-call.ts'

/** One call of a tool, after its caller was let in and its arguments were checked. */
export interface RunRequest {
  /**
   * As the client sent them, without what is the gateway's own (`resume`): a continued run must come with the
   * same. Absent where a `resume` argument came alone.
   */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
  /** What the agent gets of them. @default nothing, for a run that is continued */
  readonly input?: AgentInput | undefined
  readonly principal: Principal
  /** Where its files go. @default made with the first file */
  readonly scope?: string | undefined
  /** Of the session, for callers without a name that have one. */
  readonly sessionScope?: string | undefined
  /** Of the network: files of callers without a name are counted by it. */
  readonly address?: string | undefined
  /** Of the request, by name: for limits of what it can show. */
  readonly clientName?: string | undefined
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal
  /** What to do with text that is there before the result; absent if nobody asked for it. */
  readonly progress?: RunProgress | undefined
  /** The client can put a form before a person (`elicitation` among its capabilities). @default false */
  readonly canAsk?: boolean | undefined
  /** It can send a person to a page (`elicitation.url`). @default false */
  readonly canVisit?: boolean | undefined
  /** Its forms have choices of many, and choices with titles. @default true */
  readonly knowsChoices?: boolean | undefined
  /**
   * Names this call among those of its caller: issued again with the same arguments, it joins the one that still
   * runs, or gets its result for ten minutes. Counts for callers with a name, or with a scope.
   */
  readonly idempotencyKey?: string | undefined
  /** Continues a run that asked. */
  readonly resume?: RunResume | undefined
  /** W3C trace context of the caller. */
  readonly trace?: Readonly<Record<string, string>> | undefined
}

/**
 * Sends one piece of progress, numbered from 1 up without a repeat. Resolves when the client took it:
 * until then further pieces are joined, or dropped if they are too many. Rejections are ignored.
 */
export type RunProgress = (piece: {
  readonly progress: number
  readonly message: string
}) => void | Promise<void>

/** Which run goes on, and with what. */
export interface RunResume {
  /** As verified from `requestState`, or as the `resume` argument named it. */
  readonly state: unknown
  /** By the key of the question, as the client sent them: nothing in them was checked. */
  readonly responses: Readonly<Record<string, unknown>>
}

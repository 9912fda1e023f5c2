// Lines of the audit log: who did what, and the outcome. Arguments, texts, names of files, claims and credentials are
// never part of a line.
import type { CallEnd, FileTransfer, ObservedCall, RefusedRequest } from '../internal/observer.ts'

/** The line about a tool call. */
export interface CallEntry {
  readonly event: 'audit'
  readonly action: 'call'
  readonly principal: string
  readonly anonymous: boolean
  readonly tool: string
  /** The tool behind `agent_call`. */
  readonly target: string | undefined
  readonly run: string | undefined
  readonly outcome: string
  readonly ms: number
  readonly bytesIn: number
  readonly bytesOut: number
  readonly address: string | undefined
}

/** Names that clients send are cut here. No name of a tool is that long. */
const MAX_TOOL_LENGTH = 128

export function callEntry(call: ObservedCall, end: CallEnd): CallEntry {
  return {
    event: 'audit',
    action: 'call',
    principal: call.principal,
    anonymous: call.isAnonymous,
    tool: printable(call.tool.slice(0, MAX_TOOL_LENGTH)),
    target: end.target,
    run: end.runId,
    outcome: end.outcome,
    ms: Math.round(end.durationMs),
    bytesIn: end.requestBytes,
    bytesOut: end.resultBytes,
    address: call.address,
  }
}

/** The line about an upload or a download. */
export interface TransferEntry {
  readonly event: 'audit'
  readonly action: FileTransfer['direction']
  readonly principal: string | undefined
  readonly anonymous: boolean
  readonly link: boolean
  readonly file: string | undefined
  readonly outcome: string
  readonly ms: number
  readonly bytes: number
  readonly address: string | undefined
}

export function transferEntry(transfer: FileTransfer): TransferEntry {
  const { direction: action, isAnonymous: anonymous, isLinked: link } = transfer
  const { principal, file, outcome, durationMs, bytes, address } = transfer
  const ms = Math.round(durationMs)
  return { event: 'audit', action, principal, anonymous, link, file, outcome, ms, bytes, address }
}

/** The line about a refused request. */
export interface RefusalEntry {
  readonly event: 'audit'
  readonly action: 'sign_in'
  readonly principal: string | undefined
  readonly outcome: RefusedRequest['reason']
  readonly status: number
  readonly address: string | undefined
}

export function refusalEntry(refusal: RefusedRequest): RefusalEntry {
  const { principal, reason: outcome, status, address } = refusal
  return { event: 'audit', action: 'sign_in', principal, outcome, status, address }
}

/** Removes line breaks and escape sequences, which could fake another line. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '�')
}

/** The first request of every client that signs in, and clients that come too often. */
const USUAL: ReadonlySet<RefusedRequest['reason']> = new Set(['no_credential', 'too_many'])
const MINUTE_MS = 60_000
const MAX_PER_MINUTE = 60

/** Chooses the refused requests that get a line: everyone can send them without end, and would fill the log. */
export class RefusalLimit {
  readonly #onLimit: () => void
  readonly #now: () => number
  #minute = 0
  #count = 0

  /** @param onLimit called once in a minute in which there are more refusals than lines */
  constructor(onLimit: () => void, now: () => number) {
    this.#onLimit = onLimit
    this.#now = now
  }

  isWritten({ reason }: RefusedRequest): boolean {
    if (USUAL.has(reason)) return false
    const minute = Math.floor(this.#now() / MINUTE_MS)
    if (minute !== this.#minute) this.#count = 0
    this.#minute = minute
    if (++this.#count === MAX_PER_MINUTE + 1) this.#onLimit()
    return this.#count <= MAX_PER_MINUTE
  }
}

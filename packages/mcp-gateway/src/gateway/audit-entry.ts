import type { FileTransfer, RefusedRequest } from '../internal/observer.ts'
import type { Principal } from '../internal/principal.ts'

export interface AuditedCall {
  readonly principal: Principal
  /** Name of the tool, as it was asked for. */
  readonly tool: string
  readonly target?: string | undefined
  readonly runId?: string | undefined
  /** What came of it, in one word: `ok`, or why not (`timeout`, `cancelled`, `insufficient_scope` …). */
  readonly outcome: string
  readonly durationMs: number
  /** Of the arguments. */
  readonly requestBytes: number
  /** Of the result. */
  readonly resultBytes: number
  /** Of the client, if known. */
  readonly address?: string | undefined
}

/** One line of the audit log. Who did what and what came of it; nothing of what was said. */
export interface AuditEntry {
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

/** Names that clients send are cut here: no tool of ours comes near. */
const MAX_TOOL_LENGTH = 128

/** The line about a call. Arguments, texts, claims and tokens are no part of it. */
export function auditEntry(call: AuditedCall): AuditEntry {
  return {
    event: 'audit',
    action: 'call',
    principal: call.principal.id,
    anonymous: call.principal.isAnonymous,
    tool: printable(call.tool.slice(0, MAX_TOOL_LENGTH)),
    target: call.target,
    run: call.runId,
    outcome: call.outcome,
    ms: Math.round(call.durationMs),
    bytesIn: call.requestBytes,
    bytesOut: call.resultBytes,
    address: call.address,
  }
}

/** A file went in or out. */
export interface AuditedTransfer {
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

/** The line about a file. Neither its name nor its address is in it. */
export function transferEntry(transfer: FileTransfer): AuditedTransfer {
  const { direction: action, isAnonymous: anonymous, isLinked: link } = transfer
  const { principal, file, outcome, durationMs, bytes, address } = transfer
  const ms = Math.round(durationMs)
  return { event: 'audit', action, principal, anonymous, link, file, outcome, ms, bytes, address }
}

/** Somebody did not get in. */
export interface AuditedRefusal {
  readonly event: 'audit'
  readonly action: 'sign_in'
  readonly principal: string | undefined
  readonly outcome: RefusedRequest['reason']
  readonly status: number
  readonly address: string | undefined
}

/** The line about a request that was turned away. Nothing of its credential is in it. */
export function refusalEntry(refusal: RefusedRequest): AuditedRefusal {
  const { principal, reason: outcome, status, address } = refusal
  return { event: 'audit', action: 'sign_in', principal, outcome, status, address }
}

/** No line break or escape sequence can fake another line. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '�')
}

import { isRecord } from '@x/internal'

/** What processes have to know of a session to go on with it: all that was agreed on, and its state. */
export interface SessionRecord {
  /** Milliseconds since 1970. */
  readonly createdAt: number
  /** Where its files go, if its caller has no name. */
  readonly scope?: string | undefined
  /** `params` of its `initialize`. */
  readonly handshake: Handshake
  /** As set by `logging/setLevel`. @default every message is sent */
  readonly level?: string | undefined
  /** URIs of resources whose changes its client wants to hear of. */
  readonly followed: readonly string[]
  /** The process that has, or had last, the stream on which its client listens. @default it never listened */
  readonly listener?: string | undefined
}

export interface Handshake {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly clientInfo: Readonly<Record<string, unknown>>
}

/** As it was stored; `undefined` for anything else. */
export function sessionRecordFrom(value: unknown): SessionRecord | undefined {
  if (!isRecord(value)) return undefined
  const { createdAt, scope, level, followed, listener } = value
  const handshake = handshakeFrom(value['handshake'])
  if (!handshake || typeof createdAt !== 'number' || !isListOfTexts(followed)) return undefined
  return {
    createdAt,
    scope: textOrNot(scope),
    handshake,
    level: textOrNot(level),
    followed,
    listener: textOrNot(listener),
  }
}

/** Of the `params` of an `initialize`, what is kept; `undefined` for anything else. */
export function handshakeFrom(params: unknown): Handshake | undefined {
  if (!isRecord(params)) return undefined
  const { protocolVersion, capabilities, clientInfo } = params
  if (typeof protocolVersion !== 'string') return undefined
  if (!isRecord(capabilities) || !isRecord(clientInfo)) return undefined
  return { protocolVersion, capabilities, clientInfo }
}

function textOrNot(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function isListOfTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string')
}

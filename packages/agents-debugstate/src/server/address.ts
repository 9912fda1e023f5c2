import type { ProblemCode } from './problem.ts'

/** What the part of a path after the prefix names: one value, or with no key all of an agent. */
export interface NamedResource {
  readonly agentId: string
  readonly key: string | undefined
}

export interface BadName {
  readonly code: Extract<ProblemCode, 'BAD_AGENT_ID' | 'BAD_KEY' | 'KEY_TOO_LONG'>
  readonly detail: string
}

/** Longest key, in bytes of UTF-8, decoded. */
const MAX_KEY_BYTES = 1024

/**
 * Reads `{agentId}` or `{agentId}/{key}` as they stand in a URL. The key is one segment and decoded
 * exactly once: `%2F` in it is a slash of the key, `%252F` the text `%2F`.
 */
export function namedResourceFrom(path: string): NamedResource | BadName {
  const [agentSegment = '', keySegment, ...rest] = path.split('/')
  const agentId = decoded(agentSegment)
  if (agentId === undefined || !isAgentId(agentId)) {
    return { code: 'BAD_AGENT_ID', detail: AGENT_ID_RULE }
  }
  if (keySegment === undefined) return { agentId, key: undefined }
  const key = rest.length > 0 ? undefined : decoded(keySegment)
  if (!key || CONTROL.test(key)) return { code: 'BAD_KEY', detail: KEY_RULE }
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) {
    return { code: 'KEY_TOO_LONG', detail: `A key has at most ${MAX_KEY_BYTES} bytes` }
  }
  return { agentId, key }
}

export function isAgentId(text: string): boolean {
  return AGENT_ID.test(text)
}

const AGENT_ID = /^[A-Za-z0-9][A-Za-z0-9._~:@-]{0,127}$/
export const AGENT_ID_RULE =
  'An agent id has 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ - and starts with a letter or digit'
// oxlint-disable-next-line no-control-regex -- they are what must not be there
const CONTROL = /[\u0000-\u001F\u007F]/
const KEY_RULE =
  'A key is one percent-encoded path segment (a slash in it as %2F), not empty and without control characters'

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined // not percent-encoded UTF-8
  }
}

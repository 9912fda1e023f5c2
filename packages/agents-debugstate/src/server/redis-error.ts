import { DebugStateStoreError } from './debug-state-store-error.ts'
import type { DebugStateStoreErrorCode } from './debug-state-store-error.ts'

/** What Redis answered, or its client threw, as an error that names the server. */
export function redisErrorFrom(error: unknown, server: string): DebugStateStoreError {
  if (error instanceof DebugStateStoreError) return error
  const reason = error instanceof Error ? error.message : String(error)
  const [, kind = ''] = KIND.exec(reason) ?? []
  const { code, advice } = KINDS[kind] ?? {
    code: 'UNAVAILABLE',
    advice: 'does not do what it was asked: see the cause',
  }
  return new DebugStateStoreError(code, `Redis at ${server} ${advice}`, { cause: error })
}

/** The first word of an error answer; before Redis 7 that of a script comes later, after a hyphen. */
const KIND = /(?:^|: -)([A-Z]+) /

interface Kind {
  readonly code: DebugStateStoreErrorCode
  readonly advice: string
}

const DENIED: Kind = { code: 'DENIED', advice: 'does not let us in: check user, password and ACL' }

const KINDS: Readonly<Record<string, Kind>> = {
  NOAUTH: DENIED,
  WRONGPASS: DENIED,
  NOPERM: DENIED,
  READONLY: { code: 'READ_ONLY', advice: 'is a replica: name the primary' },
  OOM: { code: 'FULL', advice: 'has reached its maxmemory: give it more' },
  WRONGTYPE: {
    code: 'FOREIGN',
    advice: 'has keys of another program under this prefix: choose another prefix',
  },
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpClient } from '../http/http-client.ts'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { identityFrom } from '../modern/meta.ts'
import { probe } from './probe.ts'
import { probeDelayMs } from './probe-delay.ts'
import { probeVerdict } from './probe-verdict.ts'
import type { ProbeVerdict } from './probe-verdict.ts'
import { MODERN_VERSIONS } from './versions.ts'

export interface AskEraOptions {
  readonly http: HttpClient
  /** The client's `initialize`: it says who asks. */
  readonly request: JsonRpcRequest
  /** Limit for one probe, in milliseconds. */
  readonly probeMs: number
  readonly signal: AbortSignal
}

const RETRIES = 2

/**
 * Probes a server until its answer says of which era it is: once more at another version, if it wants
 * that, and twice more if it has no time now. `again` and `later` remain where it wants them without end.
 */
export async function askEra(options: AskEraOptions): Promise<ProbeVerdict> {
  const { http, request, probeMs, signal } = options
  const { lingering } = http
  let version = MODERN_VERSIONS[0] ?? ''
  let isSecond = false
  for (let retries = 0; ;) {
    const identity = identityFrom(request, version)
    const verdict = probeVerdict(await probe({ http, identity, probeMs, signal, lingering }))
    if (verdict.kind === 'again' && !isSecond) {
      isSecond = true
      version = verdict.version
    } else if (verdict.kind === 'later' && retries < RETRIES && !signal.aborted) {
      const ms = probeDelayMs(retries++, verdict.error.retryAfterMs)
      await sleep(ms, undefined, { signal, ref: false }).catch(() => {}) // the next probe tells
    } else {
      return verdict
    }
  }
}

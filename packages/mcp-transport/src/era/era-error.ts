import { isRecord } from '@x/internal'
import type { JsonRpcResponse } from '../json-rpc.ts'
import { errorAnswer } from '../error-answer.ts'
import { LEGACY_VERSIONS } from '../legacy/legacy-session.ts'
import { TransportError } from '../transport-error.ts'
import type { EraOption } from '../transport-options.ts'
import { MODERN_CODES, MODERN_VERSIONS } from './versions.ts'

/**
 * Signs of a modern server in its answer to `initialize`: the versions that it offers, as far as it said
 * them. `undefined` if there are none.
 */
export function modernEvidence(answer: JsonRpcResponse): readonly string[] | undefined {
  if ('result' in answer) return undefined
  const { code, data } = answer.error
  const status = TransportError.is(data) ? data.status : undefined
  const isModern = MODERN_CODES.includes(code) || (code === -32601 && status === 404)
  if (!isModern) return undefined
  const said = TransportError.is(data) ? data.serverError?.data : data
  const supported = isRecord(said) ? said['supported'] : undefined
  return Array.isArray(supported)
    ? supported.filter((version) => typeof version === 'string')
    : ['2026-07-28 or newer']
}

/** The server speaks MCP, but no revision that this transport was allowed to speak. */
export function onlyOtherVersions(
  url: string,
  offered: readonly string[],
  era: EraOption,
): TransportError {
  const spoken = SPOKEN[era].join(', ')
  const message = `${url} offers only ${offered.join(', ')}; with the option era: '${era}' only ${spoken} can be spoken`
  return new TransportError('REJECTED', message, { url })
}

const SPOKEN: Readonly<Record<EraOption, readonly string[]>> = {
  auto: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  'legacy-first': [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
  legacy: LEGACY_VERSIONS,
  modern: MODERN_VERSIONS,
}

/**
 * Both ways to open a conversation were refused in the way of a server that knows neither: it may be one
 * of the HTTP+SSE transport of 2024-11-05. The answer, with that said.
 */
export function noSuchServer(answer: JsonRpcResponse, url: string): JsonRpcResponse {
  if ('result' in answer || answer.id === undefined || answer.id === null) return answer
  const { data } = answer.error
  if (!TransportError.is(data) || data.serverError !== undefined) return answer
  if (data.status !== 400 && data.status !== 404 && data.status !== 405) return answer
  const message = `${url} refuses initialize (HTTP ${data.status}): no MCP endpoint, or a server of the HTTP+SSE transport of 2024-11-05, which is not spoken here`
  return errorAnswer(
    answer.id,
    new TransportError(data.code, message, {
      status: data.status,
      url,
      bodyText: data.bodyText,
      cause: data,
    }),
  )
}

import { request as requestHttp, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/** An address that a name resolved to. */
export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
}

export interface PinnedRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Headers
  readonly body: Uint8Array | ReadableStream<Uint8Array> | undefined
  /** Where the connection goes, whatever the name resolves to by then. `undefined`: as the system resolves it. */
  readonly addresses: readonly ResolvedAddress[] | undefined
  /** Ends the exchange, also while its body is read. */
  readonly signal: AbortSignal
}

/** One HTTP exchange on a connection of its own, to addresses that were chosen before. Follows no redirect. */
export async function pinnedRequest(request: PinnedRequest): Promise<IncomingMessage> {
  const { url, method, headers, body, addresses, signal } = request
  const options: RequestOptions = {
    method,
    headers: Object.fromEntries(headers),
    agent: false,
    signal,
    ...(addresses && { lookup: lookupOf(addresses) }),
  }
  const outgoing =
    url.protocol === 'https:' ? requestHttps(url, options) : requestHttp(url, options)
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve)
    outgoing.on('error', reject)
  })
  if (body === undefined || body instanceof Uint8Array) {
    outgoing.end(body)
    return answered
  }
  const sent = pipeline(Readable.fromWeb(body), outgoing)
  // An answer may come before all was sent; a body that breaks ends the exchange.
  return Promise.race([answered, sent.then(() => answered)])
}

function lookupOf(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_hostname, options, callback) => {
    const [first] = addresses
    if (options.all) callback(null, [...addresses])
    else callback(null, first?.address ?? '', first?.family)
  }
}

import { handlerDispatcher } from '@x/internal/testing/undici'
import { Dispatcher } from 'undici'
import { expect, test } from 'vitest'
import type { TransportError } from '../transport-error.ts'
import { HttpExchange } from './exchange.ts'
import type { ExchangeRequest } from './exchange.ts'

const post: ExchangeRequest = {
  method: 'POST',
  origin: 'http://server.test',
  path: '/mcp',
  display: 'http://server.test/mcp',
  headers: [],
  body: '{}',
  headersMs: 0,
  idleMs: 0,
}

/** Redirects once; then there is no connection to be had. */
class RedirectsThenRefuses extends Dispatcher {
  readonly #first = handlerDispatcher(() => Response.redirect('http://server.test/other', 307))
  #isFirst = true

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (this.#isFirst) {
      this.#isFirst = false
      return this.#first.dispatch(options, handler)
    }
    // As undici does it: a request that never got a connection never starts, and has no controller.
    const controller = undefined as unknown as Dispatcher.DispatchController
    handler.onResponseError?.(controller, new Error('connect ECONNREFUSED'))
    return true
  }
}

function unexpected(): never {
  throw new Error('An answer was not expected')
}

function failureWith(dispatcher: Dispatcher): Promise<TransportError> {
  return new Promise((resolve, reject) => {
    const reader = { head: unexpected, data: unexpected, failed: resolve, end: reject }
    new HttpExchange({ dispatcher, request: post, reader }).start()
  })
}

test('a failed connection after a redirect means that nothing was executed', async () => {
  const failure = await failureWith(new RedirectsThenRefuses())
  expect(failure).toMatchObject({ code: 'UNREACHABLE', url: 'http://server.test/mcp' })
  expect(failure.status).toBeUndefined()
})

test('fails a redirect with an endless body', async () => {
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(Buffer.alloc(16 * 1024)),
  })
  const headers = { location: '/other' }
  const dispatcher = handlerDispatcher(() => new Response(body, { status: 307, headers }))
  await expect(failureWith(dispatcher)).resolves.toMatchObject({ code: 'LIMIT', status: 307 })
})

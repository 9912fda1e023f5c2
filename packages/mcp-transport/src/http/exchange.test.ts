import { handlerDispatcher } from '@x/internal/testing/undici'
import { Dispatcher } from 'undici'
import { deferred } from '@x/mcp-testing'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { TokenProvider } from '../auth/auth-provider.ts'
import { parseServerUrl } from '../server-url.ts'
import type { TransportError } from '../transport-error.ts'
import { resolveLimits } from '../transport-options.ts'
import type { AnswerHandlers } from './answer-reader.ts'
import { SENDER } from './dispatcher.ts'
import type { Exchange, HttpRequest } from './exchange.ts'
import { HttpClient } from './http-client.ts'

const post: HttpRequest = {
  method: 'POST',
  era: 'legacy',
  headers: [],
  body: '{}',
  headersMs: 0,
  idleMs: 0,
}

/** Redirects once, then fails to connect. */
class RedirectsThenRefuses extends Dispatcher {
  readonly #first = handlerDispatcher(() => Response.redirect('https://server.test/mcp', 307))
  #isFirst = true

  override dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (this.#isFirst) {
      this.#isFirst = false
      return this.#first.dispatch(options, handler)
    }
    // As in undici: a request without a connection never starts, and has no controller.
    const controller = undefined as unknown as Dispatcher.DispatchController
    const error = Object.assign(new Error('connect ECONNREFUSED'), {
      syscall: 'connect',
      port: 443,
    })
    handler.onResponseError?.(controller, error)
    return true
  }
}

function unexpected(): never {
  throw new Error('An answer was not expected')
}

function clientWith(dispatcher: Dispatcher, authProvider?: TokenProvider): HttpClient {
  return new HttpClient({
    url: parseServerUrl('http://server.test/mcp'),
    dispatcher,
    connectMs: 1000,
    headers: {},
    limits: resolveLimits(),
    authProvider,
    observer: {},
  })
}

function failureWith(
  dispatcher: Dispatcher,
  handlers: Partial<AnswerHandlers> = { head: unexpected },
): Promise<TransportError> {
  const client = clientWith(dispatcher)
  return new Promise((resolve, reject) => {
    const all: AnswerHandlers = {
      message: unexpected,
      outcome: (outcome) => (outcome.kind === 'failed' ? resolve(outcome.error) : reject(outcome)),
      ...handlers,
    }
    client.send(post, all)
  })
}

test('reports a failed connection after a redirect as not executed', async () => {
  const failure = await failureWith(new RedirectsThenRefuses())
  expect(failure).toMatchObject({ code: 'UNREACHABLE', url: 'http://server.test/mcp' })
  expect(failure.status).toBeUndefined()
  expect(failure.message).not.toContain('proxy')
})

test('counts a redirected request as sent while it waits for a connection again', async () => {
  const redirecting = new RedirectsThenRefuses()
  const sent: (boolean | undefined)[] = []
  class Queue extends Dispatcher {
    override dispatch(
      options: Dispatcher.DispatchOptions & { readonly [SENDER]?: Exchange },
      handler: Dispatcher.DispatchHandler,
    ): boolean {
      const exchange = options[SENDER]
      sent.push(exchange?.isSent)
      exchange?.onQueued()
      sent.push(exchange?.isSent)
      return redirecting.dispatch(options, handler)
    }
  }
  await failureWith(new Queue())
  // Without `onQueued`, it is not known whether a request waits.
  expect(sent).toEqual([true, false, true, true])
})

test('gives the whole time limit to a request that is sent again after a renewal', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const [renewing, renewed, sentAgain] = [deferred(), deferred(), deferred()]
  const answer = deferred<Response>()
  let sent = 0
  const dispatcher = handlerDispatcher(() => {
    if (++sent === 1) return new Response(null, { status: 401 })
    sentAgain.resolve()
    return answer.promise
  })
  let token = 'old'
  const authProvider: TokenProvider = {
    token: () => token,
    async onUnauthorized() {
      renewing.resolve()
      await renewed.promise
      token = 'new'
    },
  }
  const client = clientWith(dispatcher, authProvider)
  const outcome = new Promise((resolve) => {
    const handlers = { message: () => {}, outcome: resolve }
    client.send({ ...post, limitMs: 1000 }, handlers)
  })
  await renewing.promise
  vi.advanceTimersByTime(900)
  renewed.resolve()
  await sentAgain.promise
  vi.advanceTimersByTime(900)
  answer.resolve(Response.json({ jsonrpc: '2.0', id: 1, result: {} }))
  await expect(outcome).resolves.toMatchObject({ kind: 'ended' })
})

test('fails a redirect with an endless body', async () => {
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(Buffer.alloc(16 * 1024)),
  })
  const headers = { location: '/other' }
  const dispatcher = handlerDispatcher(() => new Response(body, { status: 307, headers }))
  await expect(failureWith(dispatcher)).resolves.toMatchObject({ code: 'LIMIT', status: 307 })
})

test.each([
  ['head', () => new Response(null, { status: 202 })],
  ['message', () => Response.json({ jsonrpc: '2.0', id: 1, result: {} })],
])(
  'ends the exchange when the handler of a %s throws, with that error as the cause',
  async (name, answer) => {
    const cause = new Error('a bug')
    const fail = (): never => {
      throw cause
    }
    const failure = await failureWith(handlerDispatcher(answer), { [name]: fail })
    expect(failure).toMatchObject({ code: 'UNEXPECTED_RESPONSE', cause })
  },
)

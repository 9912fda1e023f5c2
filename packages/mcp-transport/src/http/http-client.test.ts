import { withErrorLink } from '@x/internal'
import { handlerDispatcher } from '@x/internal/testing/undici'
import { deferred, startTestServer } from '@x/mcp-testing'
import { Agent } from 'undici'
import { afterEach, expect, test, vi } from 'vitest'
import { createOAuthFetch } from './http-client.ts'

afterEach(() => vi.useRealTimers())

test('sends the given body and headers, and returns a Response', async () => {
  const dispatcher = handlerDispatcher(async (request) =>
    Response.json({
      body: await request.text(),
      type: request.headers.get('content-type'),
      method: request.method,
    }),
  )
  const fetch = createOAuthFetch(dispatcher)
  const response = await fetch('https://as.test/token?secret=1', {
    method: 'POST',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ a: 'b c' }),
  })
  expect(await response.json()).toEqual({
    body: 'a=b+c',
    type: 'application/x-www-form-urlencoded',
    method: 'POST',
  })
})

test('follows no redirect to another origin', async () => {
  const dispatcher = handlerDispatcher(
    () => new Response(null, { status: 307, headers: { location: 'https://evil.test/x?y' } }),
  )
  const fetch = createOAuthFetch(dispatcher)
  await expect(fetch('https://as.test/token?code=secret')).rejects.toMatchObject({
    code: 'UNEXPECTED_RESPONSE',
    message: expect.not.stringContaining('secret'),
  })
})

test('fails if the response is too large', async () => {
  const dispatcher = handlerDispatcher(() => new Response('x'.repeat(1024 * 1024 + 1)))
  const fetch = createOAuthFetch(dispatcher)
  await expect(fetch('https://as.test/')).rejects.toMatchObject({ code: 'LIMIT' })
})

test('fails without a response in time', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const fetch = createOAuthFetch(handlerDispatcher(() => new Promise(() => {})))
  const answer = fetch('https://as.test/token?code=secret').catch((error: unknown) => error)
  await vi.advanceTimersByTimeAsync(30_000)
  const message = withErrorLink('https://as.test/token sent no answer in 30000 ms', 'TIMEOUT')
  await expect(answer).resolves.toMatchObject({ code: 'TIMEOUT', message })
})

test('fails when the signal aborts', async () => {
  const reached = deferred()
  await using server = await startTestServer(() => reached.resolve())
  await using agent = disposableAgent()
  const controller = new AbortController()
  const fetch = createOAuthFetch(agent.agent)
  const answer = fetch(server.url, { signal: controller.signal })
  await reached.promise
  controller.abort()
  await expect(answer).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(fetch(server.url, { signal: controller.signal })).rejects.toMatchObject({
    code: 'CLOSED',
  })
})

function disposableAgent(): AsyncDisposable & { agent: Agent } {
  const agent = new Agent()
  return { agent, [Symbol.asyncDispose]: () => agent.destroy() }
}

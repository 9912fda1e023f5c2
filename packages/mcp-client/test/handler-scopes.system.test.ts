import { AsyncLocalStorage } from 'node:async_hooks'
import { bearer } from '@x/mcp-transport/auth'
import { startEverythingServer } from '@x/internal/testing'
import { startModernServer, startLegacyServer } from '@x/mcp-testing'
import type { LegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { currentRun, McpClient, runInSessionScope } from '../src/index.ts'
import type { ClientHandlers, ScopedRequest, SessionScope } from '../src/index.ts'

const current = new AsyncLocalStorage<string>()
const scope = (): SessionScope => ({ principal: current.getStore(), thread: 't1' })

/** Handlers that return the scope that they receive. */
function handlersTelling(asked: unknown[]): ClientHandlers {
  return {
    elicitation: (_params, context) => {
      asked.push(['elicitation', context.scope])
      const name = context.scope?.principal ?? 'nobody'
      return { action: 'accept', content: { confirmed: true, name } }
    },
    sampling: (_params, context) => {
      asked.push(['sampling', context.scope])
      const text = `of ${context.scope?.principal ?? 'nobody'}`
      return { model: 'm', role: 'assistant', content: { type: 'text', text } }
    },
    roots: (context) => {
      asked.push(['roots', context.scope])
      const name = context.scope?.principal ?? 'nobody'
      return [{ uri: `file:///home/${name}`, name }]
    },
  }
}

const both = <T>(call: (principal: string) => Promise<T>): Promise<readonly T[]> =>
  Promise.all(['anna', 'bert'].map((name) => current.run(name, () => call(name))))

describe('handlers receive the scope of the session', () => {
  test('on a server with sessions', async () => {
    await using server = await startEverythingServer()
    const asked: unknown[] = []
    const handlers = handlersTelling(asked)
    await using client = new McpClient({ url: server.url }, { scope, handlers })
    const answers = await both(async () => [
      JSON.stringify(await client.callTool('get-roots-list')),
      JSON.stringify(await client.callTool('trigger-sampling-request', { prompt: 'Hi' })),
      JSON.stringify(await client.callTool('trigger-elicitation-request')),
    ])
    for (const [n, name] of ['anna', 'bert'].entries()) {
      const other = name === 'anna' ? 'bert' : 'anna'
      expect(answers[n]?.join()).toContain(`file:///home/${name}`)
      expect(answers[n]?.join()).toContain(`of ${name}`)
      expect(answers[n]?.join()).not.toContain(other)
      for (const what of ['elicitation', 'sampling', 'roots']) {
        expect(asked).toContainEqual([what, { principal: name, thread: 't1' }])
      }
    }
  })

  test('on a stateless server, and with a run', async () => {
    await using server = await startModernServer()
    const asked: unknown[] = []
    const inRun = (): SessionScope => ({ ...scope(), run: 'current' })
    const options = { scope: inRun, handlers: handlersTelling(asked) }
    await using client = new McpClient({ url: server.url }, options)
    const runs = await both(async () =>
      runInSessionScope(async () => {
        const { structuredContent } = await client.callTool('roots')
        return { structuredContent, run: currentRun()?.id }
      }),
    )
    for (const [n, principal] of ['anna', 'bert'].entries()) {
      const { run, structuredContent } = runs[n] ?? {}
      expect(asked).toContainEqual(['roots', { principal, thread: 't1', run }])
      expect(JSON.stringify(structuredContent)).toContain(`file:///home/${principal}`)
    }
  })

  test('receive no scope for a client without one', async () => {
    await using server = await startModernServer()
    const asked: unknown[] = []
    await using client = new McpClient({ url: server.url }, { handlers: handlersTelling(asked) })
    await client.callTool('roots')
    expect(asked).toEqual([['roots', undefined]])
  })
})

test('a header function receives the scope of each request, including the last one', async () => {
  await using server = await startLegacyServer()
  const asked: ScopedRequest[] = []
  const headers = (request: ScopedRequest): Record<string, string> => {
    asked.push(request)
    return { 'x-user': request.scope?.principal ?? 'nobody' }
  }
  {
    await using client = new McpClient({ url: server.url, headers }, { scope })
    await both(() => client.callTool('counter_add'))
    await current.run('anna', () => client.ping())
  }
  expect(usersBySession(server)).toEqual(['anna', 'bert'])
  expect(new Set(asked.map(({ httpMethod }) => httpMethod))).toEqual(
    new Set(['POST', 'GET', 'DELETE']),
  )
  expect(asked).toContainEqual({
    httpMethod: 'POST',
    rpcMethod: 'tools/call',
    scope: { principal: 'bert', thread: 't1' },
  })
})

test('an authProvider can differ for each scope', async () => {
  await using server = await startLegacyServer()
  const asked: unknown[] = []
  {
    await using client = new McpClient(
      { url: server.url },
      {
        scope,
        authProvider: (_server, of) => {
          asked.push(of)
          return of?.principal === 'anna' ? bearer('token-of-anna') : undefined
        },
      },
    )
    await both(() => client.callTool('counter_add'))
    await both(() => client.callTool('counter_add'))
  }
  expect(asked).toHaveLength(2)
  const tokens = new Map(
    server.received.map(({ sessionId, headers }) => [sessionId, headers['authorization']]),
  )
  tokens.delete(undefined)
  expect(tokens.size).toBe(2)
  expect(new Set(tokens.values())).toEqual(new Set(['Bearer token-of-anna', undefined]))
})

/** Principals in the requests of each session. */
function usersBySession(server: LegacyServer): string[] {
  const users = new Map<string, Set<unknown>>()
  for (const { sessionId, headers } of server.received) {
    if (sessionId === undefined) continue
    users.set(sessionId, (users.get(sessionId) ?? new Set()).add(headers['x-user']))
  }
  return Array.from(users.values(), (set) => [...set].join()).toSorted()
}

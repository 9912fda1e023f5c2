import { freePort, startModernServer, startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { rejectionOf } from './setting.ts'

test('status() shows the states of a client without a request', async () => {
  await using server = await startLegacyServer()
  await using client = new McpClient({ url: `${server.url}?key=secret` })
  const [address] = server.url.split('?')
  expect(client.status()).toEqual({ server: address, state: 'created', sessions: [] })
  expect(server.received).toEqual([])

  await client.ping()
  const id = (await client.getSessionId()) ?? ''
  const first = client.status()
  expect(first).toMatchObject({
    server: address,
    state: 'active',
    era: 'legacy',
    protocolVersion: '2025-11-25',
    sessionId: `${id.slice(0, 4)}…(${id.length})`,
    tools: undefined,
    lastError: undefined,
  })
  const tools = await client.listTools()
  server.forgetSessions()
  await client.ping()
  const second = client.status()
  expect(second).toMatchObject({ state: 'active', tools: tools.length })
  expect(second.epoch).toBe((first.epoch ?? 0) + 1)

  await client.dispose()
  expect(client.status()).toEqual({ server: address, state: 'created', sessions: [] })
})

test('status() keeps the last error of the client, not an error that the server answered', async () => {
  const before = Date.now()
  const url = `http://127.0.0.1:${await freePort()}/mcp`
  await using client = new McpClient({ url })
  const error = await rejectionOf(client.ping())
  const { lastError, state } = client.status()
  expect(state).toBe('created')
  expect(error).toMatchObject({ code: lastError?.code, message: lastError?.message })
  expect(lastError?.code).toBe('UNREACHABLE')
  expect(Date.parse(lastError?.at ?? '')).toBeGreaterThanOrEqual(before)

  await using server = await startLegacyServer()
  await using well = new McpClient({ url: server.url })
  await rejectionOf(well.callTool('none'))
  await rejectionOf(well.ping({ signal: AbortSignal.abort() }))
  expect(well.status().lastError).toBeUndefined()
})

test('status() works for a stateless server, and for a scope function without a scope', async () => {
  await using server = await startModernServer()
  let principal: string | undefined = 'ann'
  await using client = new McpClient(
    { url: server.url },
    {
      scope: () => {
        if (principal === undefined) throw new Error('Nobody is here')
        return { principal }
      },
    },
  )
  await client.ping()
  expect(client.status()).toMatchObject({ state: 'active', era: 'modern', sessionId: undefined })
  principal = 'bob'
  expect(client.status()).toMatchObject({ state: 'created' })
  principal = undefined
  expect(client.status()).toMatchObject({
    state: 'created',
    sessions: [{ scope: { principal: 'ann' }, state: 'active', era: 'modern' }],
  })
})

test('status() has the sessions of all scopes, without complete session ids', async () => {
  await using server = await startLegacyServer()
  let principal = 'ann'
  await using client = new McpClient({ url: server.url }, { scope: () => ({ principal }) })
  await client.ping()
  principal = 'bob'
  await client.listTools()
  const status = client.status()
  const [anns = '', bobs = ''] = server.sessions
  const short = (id: string): string => `${id.slice(0, 4)}…(${id.length})`
  expect(status.sessionId).toBe(short(bobs))
  expect(status.sessions).toMatchObject([
    { scope: { principal: 'ann' }, state: 'active', sessionId: short(anns), tools: undefined },
    { scope: { principal: 'bob' }, state: 'active', sessionId: short(bobs) },
  ])
  expect(JSON.stringify(status)).not.toContain(anns)
  await client.dispose({ scope: { principal: 'ann' } })
  expect(client.status().sessions).toMatchObject([{ scope: { principal: 'bob' } }])
})

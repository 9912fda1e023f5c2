import { SessionInfo } from '@x/mcp-transport'
import { afterEach, expect, test, vi } from 'vitest'
import { plainService, startScriptedService } from '../test/scripted-service.ts'
import { SessionInfoDebugStateFactory } from './session-info-debug-state-factory.ts'
import { SessionInfoDebugState } from './session-info-debug-state.ts'

afterEach(() => vi.unstubAllEnvs())

const shop = { slug: 'shop', mcpUrl: 'https://shop.example/mcp' }

test('keeps sessions in memory without a configuration, and warns once', async () => {
  const warnings: string[] = []
  await using factory = new SessionInfoDebugStateFactory({
    onWarning: ({ code, message }) => warnings.push(`${code}: ${message}`),
  })
  const infos = [factory.createSession(shop), factory.createSession(shop)]
  expect(infos.map(({ durable }) => durable)).toEqual([false, false])
  await infos[0]?.setSessionId('session-1')
  expect(await infos[0]?.getSessionId()).toBe('session-1')
  expect(warnings).toEqual([
    expect.stringContaining(
      'NOT_CONFIGURED: MCP sessions are kept in memory only: no service address: set `baseUrl` or DEBUGSTATE_URL',
    ),
  ])
})

test('keeps sessions of a server with neither slug nor URL in memory', async () => {
  await using factory = new SessionInfoDebugStateFactory({
    baseUrl: 'http://127.0.0.1:1',
    agentId: 'agent',
  })
  const info = factory.createSession({ name: 'local' })
  expect(info).toBeInstanceOf(SessionInfo)
  expect(info).not.toBeInstanceOf(SessionInfoDebugState)
})

test('reads the environment, and shares connections between sessions', async () => {
  await using service = await startScriptedService(plainService(new Map()))
  vi.stubEnv('UIPATH_URL', `${service.baseUrl}/org`)
  vi.stubEnv('UIPATH_PROJECT_ID', 'project')
  await using factory = new SessionInfoDebugStateFactory()
  for (let n = 0; n < 5; n++) await factory.createSession(shop).getSessionId()
  expect(service.requests).toHaveLength(5)
  expect(service.requests[0]?.path).toMatch(/^\/org\/agenthub_\/design\/debugstate\/project\//)
  expect(service.connections).toBeLessThanOrEqual(4)
})

test('uses a dispatcher of the caller, and leaves it open', async () => {
  await using service = await startScriptedService(plainService(new Map()))
  const { Agent } = await import('undici')
  const dispatcher = new Agent({ connections: 1 })
  const factory = new SessionInfoDebugStateFactory({
    baseUrl: service.baseUrl,
    agentId: 'agent',
    dispatcher,
  })
  const info = factory.createSession(shop)
  await info.getSessionId()
  await factory.close()
  expect(dispatcher.closed).toBe(false)
  expect(service.connections).toBe(1)
  await dispatcher.close()
})

test('may be closed twice, also concurrently; its sessions go on in memory', async () => {
  await using service = await startScriptedService(plainService(new Map()))
  const warnings: string[] = []
  const factory = new SessionInfoDebugStateFactory({
    baseUrl: service.baseUrl,
    agentId: 'agent',
    onWarning: ({ code }) => warnings.push(code),
  })
  const info = factory.createSession(shop)
  await info.getSessionId()
  await Promise.all([factory.close(), factory.close()])
  await factory.close()
  await info.setSessionId('session-1')
  await info.flush()
  expect(await info.getSessionId()).toBe('session-1')
  expect(warnings).toEqual(['UNREACHABLE'])
})

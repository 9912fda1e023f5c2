import { AsyncLocalStorage } from 'node:async_hooks'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { createDispatcher } from '@x/mcp-transport'
import { McpClient } from '../src/index.ts'
import { is, startSetting } from './setting.ts'

test('a session that the server opens too late is ended with the token of the call that asked for it', async () => {
  const current = new AsyncLocalStorage<string>()
  const headers = (): Record<string, string> => ({ authorization: `Bearer ${current.getStore()}` })
  await using setting = await startSetting()
  const { proxy, server } = setting
  const asked = deferred()
  const opened = deferred()
  const hold = async (): Promise<'forward'> => {
    asked.resolve()
    await opened.promise
    return 'forward'
  }
  // Opens the connection that is used below. What arrives on it has the async context of this call.
  const dispatcher = createDispatcher()
  const options = { era: 'legacy', dispatcher } as const
  await using other = new McpClient({ url: proxy.url, headers }, options)
  await current.run('bob', () => other.ping())
  proxy.inject({ match: is.method('initialize'), action: hold })
  await using client = new McpClient({ url: proxy.url, headers }, options)
  const abort = new AbortController()
  const pinged = current.run('ada', () => client.ping({ signal: abort.signal }))
  await asked.promise
  abort.abort(new Error('enough'))
  await expect(pinged).rejects.toThrow('enough')
  opened.resolve()
  const { headers: sent } = await server.waitFor(({ httpMethod }) => httpMethod === 'DELETE')
  expect(sent['authorization']).toBe('Bearer ada')
  await dispatcher.destroy()
})

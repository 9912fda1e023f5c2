import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, onTestFinished, test } from 'vitest'
import { FileSessionInfoFactory, McpClient } from './index.ts'

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sessions-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'sessions') // it does not exist yet
}

test('continues the session of each scope in the next process, from a private file', async () => {
  await using server = await startLegacyServer()
  const folder = await newFolder()
  const inProcess = async (thread: string, principal: string): Promise<unknown> => {
    await using client = new McpClient(server.url, {
      sessionInfoFactory: new FileSessionInfoFactory(folder),
      scope: { thread, principal },
    })
    const { content } = await client.callTool('counter_add')
    return content
  }
  const counted = (number: number) => [{ type: 'text', text: `counter is ${number}` }]
  expect(await inProcess('t1', 'ada')).toEqual(counted(1))
  expect(await inProcess('t1', 'ada')).toEqual(counted(2))
  expect(await inProcess('t2', 'ada')).toEqual(counted(1))
  expect(await inProcess('t1', 'bob')).toEqual(counted(1))
  expect(server.sessions).toHaveLength(3)
  const files = await readdir(folder)
  expect(files).toHaveLength(3)
  for (const file of files) {
    expect(file).toMatch(/^[0-9a-f]{32}\.json$/)
    const { mode } = await stat(join(folder, file))
    expect(mode & 0o777).toBe(process.platform === 'win32' ? mode & 0o777 : 0o600)
  }
})

test('uses one file for each server and scope, and none for runs and child processes', () => {
  const factory = new FileSessionInfoFactory('sessions')
  const mcpUrl = 'https://shop.example/mcp'
  const isDurable = (...given: Parameters<FileSessionInfoFactory['createSession']>) =>
    factory.createSession(...given).durable
  expect(isDurable({ mcpUrl })).toBe(true)
  expect(isDurable({ slug: 'shop', mcpUrl }, { thread: '../../etc' })).toBe(true)
  expect(isDurable({ mcpUrl }, { run: 'r1' })).toBe(false)
  expect(isDurable({ command: 'npx' })).toBe(false)
})

test('refuses an empty path', () => {
  expect(() => new FileSessionInfoFactory('')).toThrow(TypeError)
})

import { stat, writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { makeTemporaryFolder } from '../../test/temporary-folder.ts'
import { createWorkingFolder, parseMessages, userCacheFolder } from './stdio-transport.ts'

const jsonrpc = '2.0'

describe('parseMessages accepts', () => {
  test.each([
    { jsonrpc, id: 1, result: {} },
    { jsonrpc, id: 'a', error: { code: -1, message: 'no' } },
    { jsonrpc, id: null, error: { code: -32_700, message: 'parse error' } },
    { jsonrpc, method: 'notifications/message', params: {} },
    { jsonrpc, id: 0, method: 'ping' },
  ])('%o', (message) => {
    expect(parseMessages(JSON.stringify(message))).toEqual([message])
    expect(parseMessages(JSON.stringify([message, message]))).toEqual([message, message])
  })
})

describe('parseMessages rejects', () => {
  test.each([
    'Listening on port 3000',
    '{"jsonrpc":"2.0","id":1,"result":{}',
    'null',
    '1',
    '[]',
    '{}',
    '{"jsonrpc":"1.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","id":1}',
    '{"jsonrpc":"2.0","id":1,"result":1}',
    '{"jsonrpc":"2.0","id":{},"result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":"no"}',
    '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}',
    '{"jsonrpc":"2.0","method":"x","params":1}',
    '[{"jsonrpc":"2.0","method":"x"},1]',
  ])('%s', (line) => {
    expect(parseMessages(line)).toBeUndefined()
  })
})

function settingsOf(
  command: string,
  cacheFolder: string,
): Parameters<typeof createWorkingFolder>[0] {
  return { server: { command, args: [], env: {}, cwd: undefined }, stdio: { cacheFolder } }
}

test.each([
  { platform: 'linux', environment: {}, folder: '/home/me/.cache/mcp-client' },
  { platform: 'linux', environment: { XDG_CACHE_HOME: '/c' }, folder: '/c/mcp-client' },
  { platform: 'linux', environment: { XDG_CACHE_HOME: 'c' }, folder: '/home/me/.cache/mcp-client' },
  { platform: 'darwin', environment: {}, folder: '/home/me/Library/Caches/mcp-client' },
  { platform: 'win32', environment: { LocalAppData: 'D:\\L' }, folder: 'D:\\L\\mcp-client' },
  { platform: 'win32', environment: {}, folder: '\\home\\me\\AppData\\Local\\mcp-client' },
] as const)('finds the cache folder of the user: %o', ({ platform, environment, folder }) => {
  expect(userCacheFolder(platform, environment, '/home/me')).toBe(folder)
})

test('creates a folder for a server that other users cannot read', async () => {
  await using folder = await makeTemporaryFolder()
  const cacheFolder = `${folder.path}/a/b`
  await using made = await createWorkingFolder(settingsOf('/srv/..my server', cacheFolder))
  expect(made.path).toBe(`${cacheFolder}/_my_server`)
  expect((await stat(made.path)).mode & 0o777).toBe(0o700)
})

test('creates a temporary folder if the cache folder is unusable, and removes it at the end', async () => {
  await using folder = await makeTemporaryFolder()
  await writeFile(`${folder.path}/file`, '')
  const cacheFolder = `${folder.path}/file`
  const made = await createWorkingFolder(settingsOf('server', cacheFolder))
  expect((await stat(made.path)).isDirectory()).toBe(true)
  await made[Symbol.asyncDispose]()
  await expect(stat(made.path)).rejects.toThrow('ENOENT')
})

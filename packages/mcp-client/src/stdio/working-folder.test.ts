import { stat, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from '../../test/temporary-folder.ts'
import { userCacheFolder, workingFolder } from './working-folder.ts'

test.each([
  { platform: 'linux', environment: {}, folder: '/home/me/.cache/mcp-client' },
  { platform: 'linux', environment: { XDG_CACHE_HOME: '/c' }, folder: '/c/mcp-client' },
  { platform: 'linux', environment: { XDG_CACHE_HOME: 'c' }, folder: '/home/me/.cache/mcp-client' },
  { platform: 'darwin', environment: {}, folder: '/home/me/Library/Caches/mcp-client' },
  { platform: 'win32', environment: { LocalAppData: 'D:\\L' }, folder: 'D:\\L\\mcp-client' },
  { platform: 'win32', environment: {}, folder: '\\home\\me\\AppData\\Local\\mcp-client' },
] as const)('the cache folder: %o', ({ platform, environment, folder }) => {
  expect(userCacheFolder(platform, environment, '/home/me')).toBe(folder)
})

test('a server gets a folder of its own that nobody else can look into, made on demand', async () => {
  await using folder = await makeTemporaryFolder()
  const cacheFolder = `${folder.path}/a/b`
  await using made = await workingFolder({ cwd: undefined, cacheFolder, label: '../my server' })
  expect(made.path).toBe(`${cacheFolder}/__my_server`)
  expect((await stat(made.path)).mode & 0o777).toBe(0o700)
})

test('where none can be made there, a temporary one, which goes with the connection', async () => {
  await using folder = await makeTemporaryFolder()
  await writeFile(`${folder.path}/file`, '')
  const cacheFolder = `${folder.path}/file`
  const made = await workingFolder({ cwd: undefined, cacheFolder, label: 'server' })
  expect((await stat(made.path)).isDirectory()).toBe(true)
  await made[Symbol.asyncDispose]()
  await expect(stat(made.path)).rejects.toThrow('ENOENT')
})

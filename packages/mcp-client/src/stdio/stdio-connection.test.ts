import { stat, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from '../../test/temporary-folder.ts'
import { createWorkingFolder, userCacheFolder } from './stdio-connection.ts'

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
  await using made = await createWorkingFolder({
    cwd: undefined,
    cacheFolder,
    label: '../my server',
  })
  expect(made.path).toBe(`${cacheFolder}/__my_server`)
  expect((await stat(made.path)).mode & 0o777).toBe(0o700)
})

test('creates a temporary folder if the cache folder is unusable, and removes it at the end', async () => {
  await using folder = await makeTemporaryFolder()
  await writeFile(`${folder.path}/file`, '')
  const cacheFolder = `${folder.path}/file`
  const made = await createWorkingFolder({ cwd: undefined, cacheFolder, label: 'server' })
  expect((await stat(made.path)).isDirectory()).toBe(true)
  await made[Symbol.asyncDispose]()
  await expect(stat(made.path)).rejects.toThrow('ENOENT')
})

test.each(['con', 'NUL.exe', 'com1.cmd', 'server.'])(
  'changes "%s", which Windows does not allow as the name of a folder',
  async (label) => {
    await using folder = await makeTemporaryFolder()
    await using made = await createWorkingFolder({
      cwd: undefined,
      cacheFolder: folder.path,
      label,
    })
    expect(made.path).toBe(`${folder.path}/${label === 'server.' ? 'server_' : `_${label}`}`)
  },
)

test('rejects a relative cache folder', async () => {
  const error: unknown = await createWorkingFolder({
    cwd: undefined,
    cacheFolder: 'c',
    label: 'x',
  }).catch((e: unknown) => e)
  expect(error).toMatchObject({
    code: 'CONFIG',
    cause: { message: 'stdio.cacheFolder must be an absolute path' },
  })
})

import { stat, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from '../../test/temporary-folder.ts'
import { folderFrom, userCacheFolder, workingFolder } from './working-folder.ts'

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

test.each(['con', 'NUL.exe', 'com1.cmd', 'server.'])(
  '%s is no name of a folder on Windows: the folder has another one',
  async (label) => {
    await using folder = await makeTemporaryFolder()
    await using made = await workingFolder({ cwd: undefined, cacheFolder: folder.path, label })
    expect(made.path).toBe(`${folder.path}/${label === 'server.' ? 'server_' : `_${label}`}`)
  },
)

test('a cache folder that depends on where this process runs is refused', async () => {
  const error: unknown = await workingFolder({
    cwd: undefined,
    cacheFolder: 'c',
    label: 'x',
  }).catch((e: unknown) => e)
  expect(error).toMatchObject({
    code: 'CONFIG',
    cause: { message: 'stdio.cacheFolder is no absolute path' },
  })
})

test.each([
  ['linux', '/srv'],
  ['win32', 'C:\\srv'],
  ['win32', 'c:/srv'],
  ['win32', '\\\\host\\share'],
] as const)('on %s %j is an absolute path', (platform, path) => {
  expect(folderFrom('cwd', path, platform)).toBe(path)
})

test.each([
  ['linux', 'srv'],
  ['linux', '~/srv'],
  ['linux', '/srv\0'],
  ['win32', '\\srv'], // on the drive of this process
  ['win32', '/srv'],
  ['win32', 'C:srv'],
] as const)('on %s %j is none', (platform, path) => {
  expect(() => folderFrom('cwd', path, platform)).toThrow('cwd is no absolute path')
})

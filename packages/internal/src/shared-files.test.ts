import { expect, test, vi } from 'vitest'
import { fileSystem, whileBusy } from './shared-files.ts'

const refusal = (code: string): Error => Object.assign(new Error(code), { code })

/** Fails with each of the codes, then succeeds. */
function failing(...codes: string[]): () => Promise<string> {
  return async () => {
    const code = codes.shift()
    if (code !== undefined) throw refusal(code)
    return 'done'
  }
}

test('repeats a call on Windows while another program has the file open', async () => {
  vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue('win32')
  await expect(whileBusy(failing('EPERM', 'EACCES', 'EBUSY'))).resolves.toBe('done')
})

test('rejects on Windows with the last error when the file stays open', async () => {
  vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue('win32')
  const work = vi.fn<() => Promise<never>>(() => Promise.reject(refusal('EPERM')))
  await expect(whileBusy(work)).rejects.toMatchObject({ code: 'EPERM' })
  expect(work).toHaveBeenCalledTimes(7)
})

test.each([
  ['darwin', 'EPERM'],
  ['linux', 'EBUSY'],
  ['win32', 'ENOENT'],
] as const)('repeats nothing on %s after %s', async (platform, code) => {
  vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue(platform)
  await expect(whileBusy(failing(code))).rejects.toMatchObject({ code })
})

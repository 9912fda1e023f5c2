import { chmod, writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { makeTemporaryFolder } from '../../test/temporary-folder.ts'
import { LoginShellPath, readLoginShellPath } from './login-shell-path.ts'

async function pathFrom(script: string, limitMs?: number): Promise<string> {
  await using folder = await makeTemporaryFolder()
  const shell = `${folder.path}/shell`
  await writeFile(shell, `#!/bin/sh\n${script}\n`)
  await chmod(shell, 0o755)
  return await readLoginShellPath({ shell, environment: { PATH: '/usr/bin:/bin' }, limitMs })
}

test('the shell is asked as a login shell, for what programs see', async () => {
  expect(await pathFrom('echo "/asked with:$*"')).toBe('/asked with:-l -c printenv PATH')
  expect(
    await readLoginShellPath({ shell: '/bin/sh', environment: { PATH: '/a:/bin' } }),
  ).toContain('/')
})

test('a profile may greet, and leave something behind', async () => {
  expect(await pathFrom('echo Welcome; sleep 1 & echo /a:/b', 200)).toBe('/a:/b')
})

test.each([
  ['exec sleep 30', 'no answer within 200 ms'],
  ['exit 1', 'gave no PATH'],
])('%s: an error that says why', async (script, why) => {
  await expect(pathFrom(script, 200)).rejects.toThrow(why)
})

test.each([undefined, 'bash', '/nonexistent/shell'])('no shell at %o: an error', async (shell) => {
  await expect(readLoginShellPath({ shell, environment: {} })).rejects.toThrow('login shell')
})

test('it is asked once by all, again after a failure, and again when that is wanted', async () => {
  let times = 0
  const path = new LoginShellPath(async () => {
    if (++times === 1) throw new Error('first')
    return `/${times}`
  })
  const first = await Promise.allSettled([path.get(), path.get()])
  expect(first.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await Promise.all([path.get(), path.get()])).toEqual(['/2', '/2'])
  path.forget()
  expect(await path.get()).toBe('/3')
})

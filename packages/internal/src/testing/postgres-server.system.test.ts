import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, test, vi } from 'vitest'
import { startPostgresServer } from './postgres-server.ts'

const postgres = await startPostgresServer()
const folder = new URL(postgres?.url ?? 'postgresql:///').searchParams.get('host') ?? ''

test.runIf(postgres)('leaves neither a process nor files when it is disposed of', async () => {
  const pid = postgres?.pid ?? 0
  expect(process.kill(pid, 0)).toBe(true)
  expect(existsSync(folder)).toBe(true)
  await postgres?.[Symbol.asyncDispose]()
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  expect({ folder: existsSync(folder), parent: existsSync(dirname(folder)) }).toEqual({
    folder: false,
    parent: true,
  })
})

test('leaves tests out with a message without PostgreSQL, or fails if it is required', async () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  expect(await startPostgresServer({ PATH: '/nowhere' })).toBeUndefined()
  expect(written).toHaveBeenCalledWith(expect.stringContaining('left out'))
  written.mockRestore()
  const required = startPostgresServer({ PATH: '/nowhere', REQUIRE_POSTGRES: '1' })
  await expect(required).rejects.toThrow('REQUIRE_POSTGRES')
})

import { describe, expect, test } from 'vitest'
import { FieldError } from './server-fields.ts'
import { secretVariables, withSecretHeaders } from './secret-source.ts'

const request = { httpMethod: 'POST' } as const
const vault: Readonly<Record<string, string>> = {
  TOKEN: 's3cret-1',
  Authorization: 'Bearer s3cret-2',
}
const ask = (key: string): string | undefined => vault[key]

describe('headers', () => {
  test('contain the secrets, which override other headers in any case, and change no input', async () => {
    const headers = Object.freeze({ 'x-tenant': 'a', authorization: 'plain' })
    const keys = Object.freeze(['Authorization'])
    expect(await withSecretHeaders(headers, { keys, ask })(request)).toEqual({
      'x-tenant': 'a',
      Authorization: 'Bearer s3cret-2',
    })
  })

  test('may come from a function', async () => {
    const headers = withSecretHeaders(({ httpMethod }) => ({ 'x-method': httpMethod }), {
      keys: ['Authorization'],
      ask,
    })
    expect(await headers(request)).toMatchObject({ 'x-method': 'POST' })
  })

  test('contain values that are read for each request', async () => {
    let times = 0
    const headers = withSecretHeaders({}, { keys: ['a'], ask: async () => `value-${++times}` })
    expect(await headers(request)).toEqual({ a: 'value-1' })
    expect(await headers(request)).toEqual({ a: 'value-2' })
  })

  test.each(['s3cret\r\nx: y', 's3cret\0', ' '])(
    'with the value %j are rejected without showing it',
    async (value) => {
      const headers = withSecretHeaders({}, { keys: ['a'], ask: () => value })
      const error: unknown = await Promise.resolve(headers(request)).catch((e: unknown) => e)
      expect(error).toBeInstanceOf(FieldError)
      expect(String(error)).toContain('secretHeaderKeys["a"]')
      expect(String(error)).not.toContain('s3cret')
    },
  )
})

describe('variables', () => {
  test('are only those that were named', async () => {
    expect(await secretVariables({ keys: ['TOKEN'], ask })).toEqual({ TOKEN: 's3cret-1' })
    expect(await secretVariables({ keys: [], ask })).toEqual({})
  })

  test('that are missing are named in one error', async () => {
    const error: unknown = await secretVariables({ keys: ['A', 'TOKEN', 'B'], ask }).catch(
      (e: unknown) => e,
    )
    expect(String(error)).toBe(
      'FieldError: secretEnvKeys: the option "secrets" has no value for A, B',
    )
  })

  test.each([
    ['a\0b', 'secretEnvKeys["A"] must not contain a NUL character'],
    [42 as unknown as string, 'secretEnvKeys["A"] must be a string'],
  ])('with the value %j are rejected', async (value, what) => {
    await expect(secretVariables({ keys: ['A'], ask: () => value })).rejects.toThrow(what)
  })

  test('have the error of the option as cause', async () => {
    const cause = new Error('sealed')
    const failing = (): never => {
      throw cause
    }
    await expect(secretVariables({ keys: ['A'], ask: failing })).rejects.toMatchObject({
      message: 'secretEnvKeys: the option "secrets" failed for A',
      cause,
    })
  })
})

import { expect, test } from 'vitest'
import { ResourceStack } from './resource-stack.ts'

test('closes in reverse order, one after the other, and each thing once', async () => {
  const closed: string[] = []
  const stack = new ResourceStack(() => {})
  stack.defer(() => closed.push('dispatcher'))
  stack.defer(async () => {
    await Promise.resolve()
    closed.push('transport')
  })
  await stack[Symbol.asyncDispose]()
  await stack[Symbol.asyncDispose]()
  expect(closed).toEqual(['transport', 'dispatcher'])
})

test('what fails to close is told, and the rest is closed all the same', async () => {
  const errors: unknown[] = []
  const closed: string[] = []
  const stack = new ResourceStack((error) => errors.push(error))
  stack.defer(() => closed.push('dispatcher'))
  stack.defer(() => Promise.reject(new Error('late')))
  stack.defer(() => {
    throw new Error('at once')
  })
  await stack[Symbol.asyncDispose]()
  expect(errors).toEqual([new Error('at once'), new Error('late')])
  expect(closed).toEqual(['dispatcher'])
})

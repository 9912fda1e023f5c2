import { expect, test } from 'vitest'
import { closeNewestFirst } from './close-newest-first.ts'

test('the newest is closed first, and the next one only when it is closed', async () => {
  const log: string[] = []
  const closer = (name: string) => async (): Promise<void> => {
    log.push(`${name} begins`)
    await Promise.resolve()
    log.push(`${name} is closed`)
  }
  await closeNewestFirst([closer('old'), closer('new')], { onError() {} })
  expect(log).toEqual(['new begins', 'new is closed', 'old begins', 'old is closed'])
})

test('each failure is told, and costs the others nothing', async () => {
  const errors: unknown[] = []
  let isClosed = false
  const closers = [
    () => {
      isClosed = true
    },
    () => Promise.reject(new Error('late')),
    () => {
      throw new Error('at once')
    },
  ]
  await closeNewestFirst(closers, { onError: (error) => errors.push(error) })
  expect(errors).toEqual([new Error('at once'), new Error('late')])
  expect(isClosed).toBe(true)
})

test('one that never ends keeps nobody waiting for ever, and the others are closed', async () => {
  const errors: unknown[] = []
  let isClosed = false
  const closers = [
    () => {
      isClosed = true
    },
    () => new Promise(() => {}),
  ]
  const onError = (error: unknown): void => void errors.push(error)
  await closeNewestFirst(closers, { onError, patienceMs: 5 })
  expect(isClosed).toBe(true)
  expect(errors).toMatchObject([{ name: 'DeadlineError' }])
})

test('a listener that throws stops nothing', async () => {
  let isClosed = false
  const closers = [
    () => {
      isClosed = true
    },
    () => Promise.reject(new Error('x')),
  ]
  const onError = (): never => {
    throw new Error('y')
  }
  await closeNewestFirst(closers, { onError })
  expect(isClosed).toBe(true)
})

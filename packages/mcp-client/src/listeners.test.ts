import { expect, test } from 'vitest'
import { Listeners } from './listeners.ts'

test('taking a listener out twice takes out no other, even if it is the same function', () => {
  const heard: number[] = []
  const listeners = new Listeners<number>(() => {})
  const listener = (n: number): unknown => heard.push(n)
  const undo = listeners.add(listener)
  listeners.add(listener)
  undo()
  undo()
  listeners.emit(1)
  expect(heard).toEqual([1])
})

test('one that throws, or rejects, stops no other', async () => {
  const errors: unknown[] = []
  const heard: number[] = []
  const listeners = new Listeners<number>((error) => errors.push(error))
  listeners.add(() => {
    throw new Error('sync')
  })
  listeners.add(async () => {
    throw new Error('async')
  })
  listeners.add((n) => heard.push(n))
  listeners.emit(1)
  await Promise.resolve()
  await Promise.resolve()
  expect(heard).toEqual([1])
  expect(errors).toEqual([new Error('sync'), new Error('async')])
})

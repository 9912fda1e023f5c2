import { expect, onTestFinished, test, vi } from 'vitest'
import { ClientEvents } from './events.ts'

test('removes only one listener, also when it is removed twice and the same function was added twice', () => {
  const observed: string[] = []
  const events = new ClientEvents()
  const listener = ({ uri }: { readonly uri: string }): void => void observed.push(uri)
  const remove = events.on('resourceUpdated', listener)
  events.on('resourceUpdated', listener)
  remove()
  remove()
  events.emit('resourceUpdated', { uri: 'file:///a' })
  expect(observed).toEqual(['file:///a'])
})

test('calls the other listeners when one throws or rejects, and logs the error', async () => {
  const observed: string[] = []
  const causes: unknown[] = []
  const events = new ClientEvents()
  events.on('log', ({ cause }) => causes.push(cause))
  events.on('resourceUpdated', () => {
    throw new Error('sync')
  })
  events.on('resourceUpdated', async () => {
    throw new Error('async')
  })
  events.on('resourceUpdated', ({ uri }) => observed.push(uri))
  events.emit('resourceUpdated', { uri: 'file:///a' })
  await Promise.resolve()
  await Promise.resolve()
  expect(observed).toEqual(['file:///a'])
  expect(causes).toEqual([new Error('sync'), new Error('async')])
})

test('ignores errors of a listener for "log", so that it is not called without end', () => {
  const events = new ClientEvents()
  let calls = 0
  events.on('log', () => {
    calls += 1
    throw new Error('broken logger')
  })
  events.log('info', 'a message')
  expect(calls).toBe(1)
})

test('passes the scope of the session to the listeners', () => {
  const events = new ClientEvents()
  const scopes: unknown[] = []
  events.on('resourceUpdated', (_, scope) => scopes.push(scope))
  events.forScope({ principal: 'ada' }).emit('resourceUpdated', { uri: 'file:///a' })
  events.emit('resourceUpdated', { uri: 'file:///a' })
  expect(scopes).toEqual([{ principal: 'ada' }, undefined])
})

test('shows each warning once as a warning of the process, unless somebody listens for "log"', () => {
  const emitWarning = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => emitWarning.mockRestore())
  const events = new ClientEvents()
  const remove = events.on('log', () => {})
  events.log('warning', 'heard')
  remove()
  remove()
  events.log('info', 'not a warning')
  events.log('warning', 'no settings', new Error('refused'))
  events.forScope({ principal: 'ada' }).log('warning', 'no settings', new Error('refused'))
  const again = events.on('log', () => {})
  events.log('warning', 'heard again')
  again()
  expect(emitWarning.mock.calls).toEqual([['no settings: refused', { type: 'McpClientWarning' }]])
})

test('knows which events have a listener, also for the events of a scope', () => {
  const events = new ClientEvents()
  const ofScope = events.forScope({ thread: 't1' })
  const removals = [1, 2].map(() => events.on('exchange', () => {}))
  events.on('toolListChanged', () => {})
  expect(ofScope.hasListeners('exchange')).toBe(true)
  for (const remove of [...removals, ...removals]) remove()
  expect(ofScope.hasListeners('exchange')).toBe(false)
  expect(ofScope.hasListeners('toolListChanged')).toBe(true)
})

import { expect, test } from 'vitest'

import { ownFilter } from './listen-filter.ts'

function asked(resourceSubscriptions: unknown): object {
  const notifications = { toolsListChanged: true, resourceSubscriptions }
  return { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: { notifications } }
}

const own = async (uri: string): Promise<string | undefined> =>
  uri.startsWith('a:own') ? uri.split('?')[0] : undefined

test('URIs of others are taken out, own ones are named as changes name them, once', async () => {
  const uris = ['a:own/1?version=2', 'a:other/1', 'a:own/1', 'no uri']
  const { body, followed } = await ownFilter(asked(uris), own)
  expect(body).toEqual(asked(['a:own/1']))
  expect(followed).toEqual(['a:own/1'])
})

test('without resources nothing can be followed', async () => {
  expect(await ownFilter(asked(['a:own/1']), () => undefined)).toMatchObject({ followed: [] })
})

test.each([[null], [{}], [asked('a:own/1')], [asked([1, 'a:other/1'])], [{ params: [] }]])(
  'what is no such request stays as it is: %j',
  async (body) => {
    expect(await ownFilter(body, own)).toEqual({ body, followed: [] })
  },
)

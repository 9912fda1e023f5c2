import { expect, test } from 'vitest'

import { UnreadBytes, type UnreadReply } from './unread-bytes.ts'

interface TestReply extends UnreadReply {
  isEnded: boolean
}

function replyOf(account: string): TestReply {
  const reply: TestReply = {
    account,
    end: () => (reply.isEnded = true),
    takenAt: 0,
    held: 0,
    isEnded: false,
  }
  return reply
}

test('drops replies of the account with the most bytes when more arrive than the memory is for', () => {
  const unread = new UnreadBytes({ unreadBytes: 100, unreadBytesPerConnection: 40 })
  const ben = replyOf('ben')
  expect(unread.add(ben, 30)).toBe(true)
  const ofAda = Array.from({ length: 10 }, () => replyOf('ada'))
  // Events come without a request, so that nothing can be refused before.
  for (const reply of ofAda) {
    expect(unread.add(reply, 30)).toBe(true)
    expect(unread.total).toBeLessThanOrEqual(140)
  }
  expect(ofAda.map(({ isEnded }) => isEnded)).toEqual([
    true,
    true,
    true,
    true,
    true,
    true,
    true,
    false,
    false,
    false,
  ])
  expect(ben.isEnded).toBe(false)
})

test('drops the reply itself if its account has the most and the oldest', () => {
  const unread = new UnreadBytes({ unreadBytes: 100, unreadBytesPerConnection: 80 })
  const [ada, ben] = [replyOf('ada'), replyOf('ben')]
  unread.add(ada, 60)
  unread.add(ben, 50)
  unread.add(ben, 20)
  expect(unread.add(replyOf('eve'), 60)).toBe(true)
  expect([ada.isEnded, ben.isEnded, unread.total]).toEqual([false, true, 120])
  const again = replyOf('ada')
  expect(unread.add(again, 70)).toBe(true)
  expect([ada.isEnded, again.isEnded, unread.total]).toEqual([true, false, 130])
})

test('executes no more requests when a quarter of the memory is left for those in flight', () => {
  const unread = new UnreadBytes({ unreadBytes: 100, unreadBytesPerConnection: 100 })
  const [ada, ben] = [replyOf('ada'), replyOf('ben')]
  unread.add(ada, 74)
  expect(unread.hasRoom('ada')).toBe(true)
  unread.add(ada, 1)
  expect(unread.hasRoom('ada')).toBe(false)
  unread.add(ben, 10)
  expect([ada.isEnded, ben.isEnded]).toEqual([false, false])
  // Another caller is served, at the cost of the one that holds the most.
  expect(unread.hasRoom('ben')).toBe(true)
  expect([ada.isEnded, ben.isEnded, unread.total]).toEqual([true, false, 10])
})

test('keeps a single reply of any size', () => {
  const unread = new UnreadBytes({ unreadBytes: 10, unreadBytesPerConnection: 10 })
  expect(unread.add(replyOf('ada'), 1000)).toBe(true)
  expect(unread.hasRoom('ada')).toBe(false)
})

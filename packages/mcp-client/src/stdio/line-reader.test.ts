import { seededRandom } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { LineReader } from './line-reader.ts'

function readerOf(maxBytes = 100): { reader: LineReader; lines: string[]; tooLong: string[] } {
  const lines: string[] = []
  const tooLong: string[] = []
  const onLine = (line: string): void => void lines.push(line)
  const onTooLong = (start: string): void => void tooLong.push(start)
  return { reader: new LineReader({ maxBytes, onLine, onTooLong }), lines, tooLong }
}

test('lines come out whole, however the bytes came in', () => {
  const text = 'one\r\nzwei: äöü 🎉\n\nlast'
  for (let seed = 0; seed < 200; seed++) {
    const random = seededRandom(seed)
    const { reader, lines } = readerOf()
    for (let rest = Buffer.from(text); rest.length > 0;) {
      const length = 1 + Math.floor(random() * 5)
      reader.push(rest.subarray(0, length))
      rest = rest.subarray(length)
    }
    reader.end()
    expect(lines).toEqual(['one', 'zwei: äöü 🎉', '', 'last'])
  }
})

test('a line that is too long is told once, and the next one is read', () => {
  const { reader, lines, tooLong } = readerOf(4)
  reader.push(Buffer.from('abc'))
  reader.push(Buffer.from('defghi'))
  reader.push(Buffer.from('jkl\nfour\nfives\nend\n'))
  reader.end()
  expect(tooLong).toEqual(['abcd', 'five'])
  expect(lines).toEqual(['four', 'end'])
})

test('what is no UTF-8 is replaced, and hurts nobody', () => {
  const { reader, lines } = readerOf()
  reader.push(Buffer.from([0x61, 0xff, 0xc3, 0x0a]))
  expect(lines).toEqual(['a\u{fffd}\u{fffd}'])
})

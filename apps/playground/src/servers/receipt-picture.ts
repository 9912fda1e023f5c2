import { crc32, deflateSync } from 'node:zlib'

/** Side of a square of the picture, in pixels, with the space around it. */
const CELL = 16
const COLUMNS = 20
const MAX_ROWS = 12

/** RGB colours that differ for people who do not see all colours (Okabe and Ito). */
const COLORS = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [204, 121, 167],
  [86, 180, 233],
  [213, 94, 0],
] as const
const WHITE = [255, 255, 255] as const

/** A PNG with a row for each item, and in it a square for each piece. */
export function receiptPicture(items: readonly { readonly quantity: number }[]): Buffer {
  const rows = items.slice(0, MAX_ROWS)
  const width = COLUMNS * CELL
  const height = Math.max(rows.length, 1) * CELL
  const pixels = Buffer.alloc(height * (1 + width * 3)) // each line starts with its filter: 0, none
  for (let y = 0; y < height; y++) {
    const row = Math.floor(y / CELL)
    const squares = Math.min(rows[row]?.quantity ?? 0, COLUMNS)
    for (let x = 0; x < width; x++) {
      const isSquare = x < squares * CELL && x % CELL > 1 && y % CELL > 1
      const color = isSquare ? (COLORS[row % COLORS.length] ?? WHITE) : WHITE
      pixels.set(color, y * (1 + width * 3) + 1 + x * 3)
    }
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 2], 8) // 8 bits for each of red, green and blue
  const signature = Buffer.from('89504e470d0a1a0a', 'hex')
  const chunks = [chunk('IHDR', header), chunk('IDAT', deflateSync(pixels)), chunk('IEND')]
  return Buffer.concat([signature, ...chunks])
}

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const typed = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(data.length)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(typed))
  return Buffer.concat([length, typed, checksum])
}

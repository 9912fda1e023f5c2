export interface BodyEnd {
  /** That were taken. */
  readonly bytes: number
  /** Its whole body was taken; else it broke, or nobody wanted more of it. */
  readonly isComplete: boolean
}

/**
 * The same answer; tells once how much of its body was taken, and whether that was all. Nothing is read ahead.
 *
 * @param signal of the request: some servers only abort it, and leave the body alone
 */
export function countedBody(
  response: Response,
  signal: AbortSignal,
  onEnd: (end: BodyEnd) => void,
): Response {
  const { body, headers, status } = response
  if (body === null) {
    onEnd({ bytes: 0, isComplete: true })
    return response
  }
  const reader = body.getReader()
  let bytes = 0
  let hasEnded = false
  const end = (isComplete: boolean): void => {
    if (hasEnded) return
    hasEnded = true
    signal.removeEventListener('abort', lose)
    onEnd({ bytes, isComplete })
  }
  const lose = (): void => {
    end(false)
    void reader.cancel().catch(() => undefined)
  }
  if (signal.aborted) lose()
  else signal.addEventListener('abort', lose)
  const counted = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (done) {
            end(true)
            controller.close()
            return
          }
          bytes += value.byteLength
          controller.enqueue(value)
        } catch (error) {
          end(false)
          controller.error(error)
        }
      },
      async cancel(reason) {
        end(false)
        await reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(counted, { status, headers })
}

/**
 * The same answer; tells once when its body was taken to the end, or given up before.
 *
 * @param signal of the request: some servers only abort it, and leave the body alone
 */
export function watchedBody(
  response: Response,
  onEnd: (end: 'complete' | 'lost') => void,
  signal?: AbortSignal,
): Response {
  if (response.body === null) {
    onEnd('complete')
    return response
  }
  const reader = response.body.getReader()
  let hasEnded = false
  const end = (how: 'complete' | 'lost'): void => {
    if (hasEnded) return
    hasEnded = true
    signal?.removeEventListener('abort', lose)
    onEnd(how)
  }
  const lose = (): void => {
    end('lost')
    void reader.cancel().catch(() => undefined)
  }
  if (signal?.aborted) lose()
  else signal?.addEventListener('abort', lose)
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (hasEnded) return
          if (!done) return controller.enqueue(value)
          end('complete')
          controller.close()
        } catch (error) {
          end('lost')
          controller.error(error)
        }
      },
      async cancel(reason) {
        end('lost')
        await reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status: response.status, headers: response.headers })
}

/** Whether an answer is a stream of events. */
export function isEventStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') ?? false
}

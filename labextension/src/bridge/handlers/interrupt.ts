import type { Handler } from "../handler";

export const interrupt: Handler<"interrupt"> = async ({ kernel }) => {
  await kernel.interrupt();
  return {};
};

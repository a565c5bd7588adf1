// The form to log in, as a Redis user or with the token of the program's owner.

import { post } from "./api.js";
import { h, labelled } from "./dom.js";

export class LoginView {
  title = "Log in";

  /** `byUser`: with a Redis user and password; else with a token. `done()` is called afterwards. */
  constructor(byUser, done) {
    const wrong = h("p", { class: "wrong", role: "alert" });
    const field = (name, type, complete) =>
      h("input", { name, type, autocomplete: complete, required: true, spellcheck: "false" });
    const fields = byUser
      ? [
          labelled("Redis user", field("user", "text", "username")),
          labelled("Password", field("password", "password", "current-password")),
        ]
      : [labelled("Token", field("token", "password", "off"), "The owner of this dehydrator-top has it.")];
    const form = h(
      "form",
      {
        class: "login",
        onsubmit: async (event) => {
          event.preventDefault();
          wrong.textContent = "";
          try {
            await post("login", Object.fromEntries(new FormData(form)));
            done();
          } catch (error) {
            wrong.textContent = error.message;
            form.querySelector("input").focus();
          }
        },
      },
      [
        h("h1", { id: "head", tabindex: "-1" }, "Log in"),
        fields,
        wrong,
        h("button", { type: "submit", class: "primary" }, "Log in"),
      ],
    );
    this.element = h("section", { "aria-labelledby": "head" }, form);
  }
}

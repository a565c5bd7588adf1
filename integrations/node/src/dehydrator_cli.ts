#!/usr/bin/env node
import { become } from "./programs.js";

become("valkey-cli");
